"""Truncated backpropagation through time against hand-written loops: bit-equal weights."""

from typing import Any

import pytest
import torch
from rich.console import Console
from torch import nn

from growkit.errors import EngineError
from growkit.train import Engine, Settings, StepCallbackReturn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(3, 4, batch_first=True)
        self.out = nn.Linear(4, 2)

    def forward(self, x, state=None):
        hidden, state = self.rnn(x, state)
        return self.out(hidden), state


def make_net() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return Net().double()


def sequences(count: int = 3, rows: int = 2, length: int = 10) -> list[dict[str, Any]]:
    generator = torch.Generator().manual_seed(5)

    def draw(*size: int) -> torch.Tensor:
        return torch.randn(*size, generator=generator, dtype=torch.float64)

    return [{"x": draw(rows, length, 3), "y": draw(rows, length, 2), "name": f"b{index}"} for index in range(count)]


def loss_and_state(net: nn.Module, batch: Any, state: Any) -> tuple[torch.Tensor, Any]:
    out, state = net(batch["x"], state)
    return (out - batch["y"]).square().mean(), state


def train_step(model, batch, carry):
    return loss_and_state(model, batch, carry)


def manual(model, batch, carry, flow):
    loss, state = loss_and_state(model, batch, carry)
    flow.zero_grad()
    flow.backward(loss)
    flow.step()
    return {"loss": loss}, state


def adam(net: nn.Module) -> torch.optim.Adam:
    return torch.optim.Adam(net.parameters(), lr=0.05)


def make_engine(data: Any, step: Any = train_step, **given: Any) -> Engine:
    settings = {"truncated_bptt_steps": 4, "time_dims": 1} | given.pop("settings", {})
    return Engine(
        given.pop("model", None) or make_net(),
        step,
        data,
        optimizers=given.pop("optimizers", adam),
        settings=Settings(**settings),
        console=Console(quiet=True),
        **given,
    )


def pieces(batch: Any, steps: int) -> list[tuple[Any, float]]:
    length = batch["x"].shape[1]
    return [
        (
            {"x": batch["x"][:, start : start + steps], "y": batch["y"][:, start : start + steps]},
            min(steps, length - start) / length,
        )
        for start in range(0, length, steps)
    ]


def free(state: Any) -> Any:
    return tuple(part.detach() for part in state)


def same(one: nn.Module, other: nn.Module) -> bool:
    return all(torch.equal(p, q) for p, q in zip(one.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("step", [train_step, manual])
@pytest.mark.parametrize("keep", [False, True])
def test_a_step_for_each_split(step: Any, keep: bool) -> None:
    data = sequences()
    engine = make_engine(data, step, settings={"carry_over_batches": keep})
    engine.fit(2)
    net = make_net()
    optimizer = adam(net)
    for _ in range(2):
        state = None
        for batch in data:
            state = state if keep else None
            for part, _ in pieces(batch, 4):
                optimizer.zero_grad()
                loss, state = loss_and_state(net, part, state)
                loss.backward()
                optimizer.step()
                state = free(state)
    assert same(engine.model, net)
    assert (engine.progress.step, engine.progress.updates) == (6, 18)


@pytest.mark.parametrize("step", [train_step, manual])
@pytest.mark.parametrize("window", [1, 2])
def test_a_step_for_each_batch_weighs_splits_by_their_length(step: Any, window: int) -> None:
    data = sequences()
    settings = {"update_every": "batch", "accumulate_steps": window, "gradient_clip_norm": 0.05}
    engine = make_engine(data, step, settings=settings)
    engine.fit(1)
    net = make_net()
    optimizer = adam(net)
    for start in range(0, len(data), window):
        part = data[start : start + window]
        optimizer.zero_grad()
        for batch in part:
            state = None
            for piece, weight in pieces(batch, 4):
                loss, state = loss_and_state(net, piece, state)
                loss = loss * weight
                (loss / len(part) if len(part) > 1 else loss).backward()
                state = free(state)
        torch.nn.utils.clip_grad_norm_(net.parameters(), 0.05)
        optimizer.step()
    assert same(engine.model, net)
    assert engine.progress.updates == len(range(0, len(data), window))


def test_the_mean_of_a_row_is_that_of_the_whole_sequence() -> None:
    """With a rate of 0 the weights stand still, so the weighted losses of the splits add up to the whole loss."""
    data = sequences(1)
    engine = make_engine(data, optimizers=lambda net: torch.optim.SGD(net.parameters(), lr=0.0))
    engine.fit(1)
    whole, _ = loss_and_state(make_net(), data[0], None)
    assert engine.history[-1]["loss_mean"] == pytest.approx(whole.item(), rel=1e-12)


@pytest.mark.report("R170")
@pytest.mark.parametrize("steps", [None, 0, 10, 99])
def test_no_splits_and_splits_as_long_as_the_sequence_are_one(steps: Any) -> None:
    data = sequences()
    settings = {"truncated_bptt_steps": steps, "carry_over_batches": not steps}
    engine = make_engine(data, settings=settings)
    engine.fit(max_steps=1)
    net = make_net()
    loss_and_state(net, data[0], None)[0].backward()
    adam(net).step()
    assert same(engine.model, net)


def test_each_optimizer_has_a_carry_of_its_own() -> None:
    seen: dict[str, list[Any]] = {"rnn": [], "out": []}

    def both(net: nn.Module) -> dict[str, torch.optim.Optimizer]:
        return {name: adam(getattr(net, name)) for name in seen}

    def step(model, batch, carry, optimizer):
        seen[optimizer].append(carry)
        loss, _ = loss_and_state(model, batch, None)
        return loss, [f"{optimizer} {len(seen[optimizer])}"]

    make_engine(sequences(1), step, optimizers=both).fit(1)
    assert seen == {"rnn": [None, ["rnn 1"], ["rnn 2"]], "out": [None, ["out 1"], ["out 2"]]}


def test_a_step_without_a_carry_is_refused() -> None:
    def step(model, batch, carry):
        return loss_and_state(model, batch, carry)[0]

    with pytest.raises(EngineError, match="returned no carry for the next split") as caught:
        make_engine(sequences(), step).fit(1)
    assert caught.value.next_step == "return loss, carry"


@pytest.mark.report("R173")
def test_a_carry_starts_anew_where_the_rows_of_the_batch_change() -> None:
    data = [*sequences(2, rows=4), *sequences(1, rows=2)]
    starts: list[bool] = []

    def step(model, batch, carry, progress):
        if progress.split == 0:
            starts.append(carry is None)
        return loss_and_state(model, batch, carry)

    make_engine(data, step, settings={"carry_over_batches": True}).fit(1)
    assert starts == [True, False, True]


def test_a_carry_starts_anew_after_a_change_of_the_model() -> None:
    starts: list[bool] = []

    def step(model, batch, carry, progress):
        if progress.split == 0:
            starts.append(carry is None)
        return loss_and_state(model, batch, carry)

    def change(step, model):
        return StepCallbackReturn(updated_model=model) if step == 2 else None

    make_engine(sequences(4), step, settings={"carry_over_batches": True}, callbacks=[change]).fit(1)
    assert starts == [True, False, True, False]


def test_callbacks_run_between_batches_only() -> None:
    called: list[tuple[int, int]] = []
    make_engine(sequences(), callbacks=[lambda step, progress: called.append((step, progress.split))]).fit(1)
    assert called == [(0, 0), (1, 0), (2, 0)]


@pytest.mark.report("R163")
def test_evaluation_runs_on_whole_sequences_with_fresh_state() -> None:
    data = sequences()
    seen: list[Any] = []

    def measure(model, batch, carry):
        seen.append((carry, batch["x"].shape[1]))
        return loss_and_state(model, batch, carry)[0]

    engine = make_engine(data, eval_step=measure, eval_data=data)
    engine.evaluate()
    engine.fit(1)
    engine.evaluate()
    assert seen == [(None, 10)] * 6


@pytest.mark.report("R166")
def test_a_decoder_goes_on_from_its_own_state_while_the_source_stays_whole() -> None:
    """The encoder is run where there is no carry yet: once for each batch."""
    generator = torch.Generator().manual_seed(2)
    data = [
        {"x": torch.randn(2, size, 3, generator=generator, dtype=torch.float64), "y": batch["y"], "source": batch["x"]}
        for size, batch in zip((10, 10), sequences(2), strict=True)
    ]
    encoded: list[int] = []

    def step(model, batch, carry):
        if carry is None:
            encoded.append(batch["source"].shape[1])
            _, carry = model.rnn(batch["source"])
        return loss_and_state(model, batch, carry)

    engine = make_engine(data, step, settings={"time_dims": {"x": 1, "y": 1, "source": None}})
    engine.fit(1)
    net = make_net()
    optimizer = adam(net)
    for batch in data:
        state = None
        for part, _ in pieces(batch, 4):
            if state is None:
                _, state = net.rnn(batch["source"])
            optimizer.zero_grad()
            loss, state = loss_and_state(net, part, state)
            loss.backward()
            optimizer.step()
            state = free(state)
    assert same(engine.model, net)
    assert encoded == [10, 10]
