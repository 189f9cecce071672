"""The examples run, and grow what they say."""

import math
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

EXAMPLES = Path(__file__).parent.parent / "examples"

Example = Callable[[str], dict[str, Any]]


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Example:
    """The names of an example; examples may import each other, as they can when they are run."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return lambda name: runpy.run_path(str(EXAMPLES / f"{name}.py"))


@pytest.mark.report("R164")
def test_plain_loop(capsys: pytest.CaptureFixture[str]) -> None:
    losses = runpy.run_path(str(EXAMPLES / "plain_loop.py"))["main"]()
    assert sum(losses[-20:]) < 0.7 * sum(losses[:20])
    printed = capsys.readouterr().out
    assert printed.count("function kept") == 3
    assert "first.weight[0]: 4 -> 16 (net2net)" in printed
    assert "step 250" in printed


def test_callback_engine(capsys: pytest.CaptureFixture[str]) -> None:
    engine = runpy.run_path(str(EXAMPLES / "callback_engine.py"))["main"]()
    assert capsys.readouterr().out.startswith("FitLoop -> EpochLoop -> AutomaticFlow\n")
    assert len(engine.model.blocks) == 3
    assert [block.up.out_features for block in engine.model.blocks] == [16, 16, 16]
    reports = engine._state.services["growth"].reports
    assert [report.verification.passed for report in reports] == [True, True]
    assert engine.history[-1]["loss"] < 0.1 < engine.history[0]["loss"]


@pytest.mark.slow
def test_tbptt_learns_more_than_three_letters_tell_and_by_hand_the_same(
    example: Example, capsys: pytest.CaptureFixture[str]
) -> None:
    names = example("tbptt")
    engine = names["main"](epochs=5)
    assert capsys.readouterr().out.startswith("FitLoop -> EpochLoop -> TbpttLoop -> AutomaticFlow\n")
    assert [names["entropy"](count) for count in range(4)] == pytest.approx([2.74, 1.39, 0.51, 0.24], abs=0.005)
    # No one who sees the last three letters only can have a mean loss below what they leave open.
    assert engine.history[-1]["loss_mean"] < names["entropy"](3)
    assert engine.model.lstm.hidden_size == 64
    assert (engine.progress.step, engine.progress.updates) == (65, 4 * 65)

    by_hand = example("manual")["main"](epochs=5)
    assert capsys.readouterr().out.startswith("FitLoop -> EpochLoop -> TbpttLoop -> ManualFlow\n")
    assert by_hand.progress.updates == engine.progress.updates
    for name, weight in engine.model.state_dict().items():
        assert torch.equal(by_hand.model.state_dict()[name], weight), name


def test_entropies_of_the_rhyme_fall_with_the_letters_known(example: Example) -> None:
    """Against the definition, over all pairs of letters."""
    names = example("tbptt")
    text = names["TEXT"]
    pairs = [text[i] + text[(i + 1) % len(text)] for i in range(len(text))]
    by_definition = sum(-math.log(pairs.count(pair) / text.count(pair[0])) for pair in pairs) / len(text)
    assert names["entropy"](1) == pytest.approx(by_definition)


@pytest.mark.slow
def test_gan_finds_both_humps(example: Example, capsys: pytest.CaptureFixture[str]) -> None:
    distances = example("gan")["main"](steps=400)
    assert capsys.readouterr().out.startswith("FitLoop -> EpochLoop -> YieldingFlow\n")
    # With a share p of the mass at one of the two humps, 4 apart, |p - 1/2| has to be moved by 4.
    assert distances[0] > 1.5
    assert distances[-1] < 4 * 0.1


def test_own_loop_does_what_is_written_by_hand(example: Example, capsys: pytest.CaptureFixture[str]) -> None:
    names = example("own_loop")
    engine = names["main"](epochs=4)
    assert capsys.readouterr().out.startswith("FitLoop -> EpochLoop -> Lookahead -> SharpnessAware\n")

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
    slow = [weight.detach().clone() for weight in model.parameters()]
    for step, batch in enumerate(4 * names["data"]()):
        start = [weight.detach().clone() for weight in model.parameters()]
        model.zero_grad()
        names["train_step"](model, batch).backward()
        norm = torch.cat([weight.grad.flatten() for weight in model.parameters()]).norm()
        with torch.no_grad():
            for weight in model.parameters():
                weight += 0.05 * weight.grad / norm
        model.zero_grad()
        names["train_step"](model, batch).backward()
        with torch.no_grad():
            for weight, old in zip(model.parameters(), start, strict=True):
                weight.copy_(old)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 5 == 4:
            with torch.no_grad():
                for weight, old in zip(model.parameters(), slow, strict=True):
                    old += (weight - old) / 2
                    weight.copy_(old)
    assert engine.history[-1]["loss_mean"] < 0.5 * (4 / 3) ** 2  # half the mean square of a product of coordinates
    for weight, by_hand in zip(engine.model.parameters(), model.parameters(), strict=True):
        # Rounding apart: the norm, and the means with the slow weights, are summed in another order.
        torch.testing.assert_close(weight, by_hand, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_staged_conformer_uses_context_and_grows(example: Example, capsys: pytest.CaptureFixture[str]) -> None:
    names = example("staged_conformer")
    engine = names["main"]()
    assert capsys.readouterr().out.startswith("FitLoop -> EpochLoop -> AutomaticFlow\n")
    # 384 samples an epoch in batches of 32, of 16 from epoch 3 on, of 32 again from epoch 7 on.
    assert [row["step"] for row in engine.evaluations] == [12, 24, 48, 72, 96, 120, 132, 144]
    assert [row["parameters"] for row in engine.evaluations] == [1126] * 4 + [4246] * 2 + [12246] * 2
    assert engine.optimizer.param_groups[0]["lr"] == 3e-3
    assert len(engine.model.encoder.layers) == 3
    # One frame alone: the right entry, 1 + noise of deviation 0.7, is above five entries of such noise with
    # probability E[Phi(z + 1 / 0.7)^5].
    z = torch.linspace(-8, 8, 10_001, dtype=torch.float64)
    right = (
        torch.special.ndtr(z + 1 / 0.7) ** (names["PHONES"] - 1) * torch.exp(-z.square() / 2) / math.sqrt(2 * math.pi)
    )
    assert engine.evaluations[-1]["eval_errors"] < 1 - torch.trapezoid(right, z).item()
