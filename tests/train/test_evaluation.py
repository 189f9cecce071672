"""Evaluation: what it gives, and that it leaves no trace in the training."""

import io
import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import nn
from torch.utils.data import DataLoader

from growkit.errors import EngineError, SettingsError
from growkit.train import Runtime, Settings, StepCallbackReturn
from growkit.train.evaluation import undisturbed


class Mean(nn.Module):
    """Gives back its inputs' mean; a network on which results are worked out by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.weight * inputs.mean()


def rows(*sizes: int) -> list[torch.Tensor]:
    """Batches of 0, 1, 2, ...: (2, 3) gives [0, 1], [2, 3, 4]."""
    return list(torch.arange(float(sum(sizes))).split(list(sizes)))


def mean(model, batch):
    return model(batch)


def counted(model, batch):
    return {"loss": model(batch), "largest": float(batch.max()), "count": len(batch)}


@pytest.fixture
def mean_engine(make_engine: Any) -> Any:
    def make(**given: Any) -> Any:
        given = {"model": Mean(), "train_step": mean, "train_data": rows(1, 1)} | given
        return make_engine(**given, optimizers=lambda model: torch.optim.SGD(model.parameters(), lr=0.0))

    return make


def test_every_batch_weighs_the_same_unless_the_step_counts(mean_engine: Any) -> None:
    engine = mean_engine(eval_step=mean, eval_data=rows(2, 3))
    assert engine.evaluate() == {"loss": (0.5 + 3.0) / 2}
    # Means of all five numbers: (0 + 1 + 2 + 3 + 4) / 5; the largest weighs as its batch: (2 * 1 + 3 * 4) / 5.
    assert engine.evaluate(step=counted) == {"loss": 2.0, "largest": pytest.approx(14 / 5, rel=1e-15), "count": 5.0}
    assert engine.evaluate(rows(4)) == {"loss": 1.5}


@pytest.mark.report("R138")
def test_eval_data_may_be_a_factory_called_once_for_each_evaluation(mean_engine: Any) -> None:
    asked = []

    def data(epoch, batch_size):
        asked.append((epoch, batch_size))
        return rows(2, 2)

    def train_data(batch_size):
        return rows(1, 1)

    given = {"train_data": train_data, "eval_step": mean, "eval_data": data}
    engine = mean_engine(**given, settings=Settings(batch_size=2, evaluate_every=2))
    assert asked == []
    engine.fit(4)
    engine.evaluate()
    assert asked == [(2, 2), (4, 2), (4, 2)]
    with pytest.raises(SettingsError, match="no batch_size, and eval_data asks for it"):
        mean_engine(eval_step=mean, eval_data=data).evaluate()


def test_the_step_gets_the_users_model_in_eval_mode_without_gradients(make_engine: Any, service: Any) -> None:
    seen: list[dict[str, Any]] = []

    class Wrapper(nn.Module):
        def __init__(self, inner: nn.Module):
            super().__init__()
            self.inner = inner

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return self.inner(inputs)

    def step(**offered):
        seen.append(offered | {"modes": [module.training for module in offered["model"].modules()]})
        return {"grad": torch.is_grad_enabled()}

    engine = make_engine(eval_step=step, eval_data=[5], services={"growth": service}, runtime=Runtime(wrap=Wrapper))
    engine.fit(1)
    assert engine.evaluate() == {"grad": 0.0}
    assert sorted(seen[0]) == [
        "batch", "carry", "config", "epoch", "growth", "metrics", "model", "modes", "progress", "step", "updates",
    ]  # fmt: skip
    assert seen[0]["model"] is engine.model
    assert (seen[0]["batch"], seen[0]["epoch"], seen[0]["step"]) == (5, 1, 5)
    assert not any(seen[0]["modes"])


def test_modes_and_random_numbers_are_as_before_even_after_an_error(make_engine: Any) -> None:
    engine = make_engine(eval_step=lambda batch: 1 / batch, eval_data=[2, 1])
    engine.model.train()
    engine.model[1].eval()
    before = [module.training for module in engine.model.modules()]
    states = torch.get_rng_state(), random.getstate()

    def draws(model, batch):
        torch.rand(3)
        random.random()
        model.train()
        return 1 / batch

    engine.evaluate(step=draws)
    with pytest.raises(ZeroDivisionError):
        engine.evaluate([1, 0], step=draws)
    assert [module.training for module in engine.model.modules()] == before
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]


@pytest.mark.gpu
def test_random_numbers_of_the_models_device_are_as_before() -> None:
    model = nn.Linear(2, 2, device="cuda")
    before = torch.cuda.get_rng_state()
    with undisturbed(model):
        torch.rand(3, device="cuda")
    assert torch.equal(torch.cuda.get_rng_state(), before)


def test_training_is_bit_equal_with_and_without_evaluations(make_engine: Any, make_net: Any, batches: Any) -> None:
    """With dropout, batch norm, and a shuffled loader: all that random numbers or modes could disturb."""
    samples = [(x, y) for inputs, targets in batches for x, y in zip(inputs, targets, strict=True)]

    def fitted(**given: Any) -> Any:
        torch.manual_seed(3)
        net = nn.Sequential(make_net(), nn.BatchNorm1d(1, dtype=torch.float64), nn.Dropout(0.5))
        engine = make_engine(model=net, train_data=DataLoader(samples, batch_size=4, shuffle=True), **given)
        engine.fit(3)
        return engine

    def loss_in_training_mode(model, batch):
        model[2].train()
        return model(batch[0]).square().mean()

    with_evaluations = fitted(
        eval_step=loss_in_training_mode,
        eval_data=DataLoader(samples, batch_size=3, shuffle=True),
        settings=Settings(evaluate_every=1),
    )
    without = fitted()
    assert len(with_evaluations.evaluations) == 3
    for one, other in zip(
        with_evaluations.model.state_dict().values(), without.model.state_dict().values(), strict=True
    ):
        assert torch.equal(one, other)


def test_a_callback_may_evaluate_and_reads_the_last_results(mean_engine: Any) -> None:
    seen = []
    engine: Any = None

    def at_epoch(epoch, metrics):
        seen.append(dict(metrics.evaluation))
        if epoch == 2:
            engine.evaluate(rows(4))

    engine = mean_engine(
        eval_step=mean,
        eval_data=rows(2, 2),
        epoch_callbacks=[at_epoch],
        callbacks=[lambda metrics, step: seen.append(dict(metrics.evaluation)) if step == 2 else None],
        settings=Settings(evaluate_every=1),
    )
    engine.fit(2)
    assert seen == [{}, {"loss": 1.5}, {"loss": 1.5}]
    assert [row["epoch"] for row in engine.evaluations] == [1, 1, 2]
    assert engine.model.training


def test_no_callback_is_called_in_an_evaluation(mean_engine: Any) -> None:
    calls = []
    engine = mean_engine(
        eval_step=mean,
        eval_data=rows(1, 1, 1),
        callbacks=[lambda: calls.append("step")],
        epoch_callbacks=[lambda: calls.append("epoch")],
    )
    engine.evaluate()
    assert calls == []


def test_results_are_marked_rows_of_file_display_and_evaluations(mean_engine: Any, tmp_path: Path) -> None:
    output = io.StringIO()
    engine = mean_engine(
        eval_step=counted, eval_data=rows(2, 3), run_dir=tmp_path / "run", console=Console(file=output)
    )
    engine.evaluate()
    engine.fit(1)
    engine.evaluate()
    row = {"eval_loss": 2.0, "eval_largest": 2.8, "eval_count": 5.0, "parameters": 1}
    expected = [
        {"epoch": 1, "step": 0, "updates": 0, **row},
        {"epoch": 1, "step": 2, "updates": 2, **row},
    ]
    assert engine.evaluations == expected
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line for line in lines if "eval_loss" in line] == expected
    assert [line for line in lines if "eval_loss" not in line] == engine.history
    assert output.getvalue().splitlines()[0] == (
        "epoch 1  step 0  updates 0  eval_loss 2  eval_largest 2.8  eval_count 5  parameters 1"
    )


@pytest.mark.parametrize(
    ("given", "data", "step", "message"),
    [
        ({}, None, None, r"evaluate\(\) without step"),
        ({"eval_step": mean}, None, None, r"evaluate\(\) without data"),
        ({"eval_data": [1]}, None, None, r"evaluate\(\) without step"),
        ({"eval_step": mean}, [], None, "eval_data gave no batch"),
        ({"eval_step": mean}, 5, None, "eval_data is a int"),
        ({"eval_step": mean, "eval_data": [1]}, None, 5, "eval_step is a int"),
        ({"eval_data": [1]}, None, lambda bach: 1, "eval_step '<lambda>' asks for 'bach'"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(
    mean_engine: Any, given: dict[str, Any], data: Any, step: Any, message: str
) -> None:
    engine = mean_engine(**given)
    with pytest.raises(EngineError, match=message):
        engine.evaluate(data, step=step)
    assert engine.evaluations == []


def test_evaluations_that_cannot_be_done_are_refused_as_a_setting(mean_engine: Any) -> None:
    with pytest.raises(SettingsError, match="evaluate_every=1 without an eval step and data"):
        mean_engine(settings=Settings(evaluate_every=1), eval_step=mean)
    update = StepCallbackReturn(config_updates={"evaluate_every": 2})
    with pytest.raises(SettingsError, match="evaluate_every=2 without an eval step and data"):
        mean_engine(callbacks=[lambda: update]).fit(1)
    engine = mean_engine(callbacks=[lambda: update], eval_step=mean, eval_data=rows(1))
    engine.fit(4)
    assert [row["epoch"] for row in engine.evaluations] == [2, 4]
