"""What a loss or gradients that are not finite do."""

from typing import Any

import pytest
import torch
from torch import nn

from growkit.errors import EngineError
from growkit.train import Runtime, Settings
from growkit.train.finite import gradient_norm
from tests.train.test_flow_automatic import equal

BAD = 2
"""The batch whose loss is not finite."""


def breaking(how: str, loss_of: Any) -> Any:
    """A train step whose third batch goes wrong in one way."""

    def train_step(model, batch, step):
        loss = loss_of(model, batch)
        if step == BAD and how == "gradient":
            return loss + (model[0].weight * 0).sum().sqrt()  # 0 * inf
        return loss + float("inf") if step == BAD else loss

    return train_step


@pytest.mark.parametrize("how", ["gradient", "loss"])
@pytest.mark.parametrize("precision", [None, "bf16"])
def test_an_error_comes_before_the_step(make_engine: Any, loss_of: Any, how: str, precision: Any) -> None:
    engine = make_engine(train_step=breaking(how, loss_of), settings=Settings(precision=precision))
    engine.fit(max_steps=BAD)
    before = {name: tensor.clone() for name, tensor in engine.model.state_dict().items()}
    with pytest.raises(EngineError, match="at step 2, with a loss of") as caught:
        engine.fit(1)
    assert "0.weight" in caught.value.given
    assert ("inf" in caught.value.given.partition(":")[0]) == (how == "loss")
    assert ("2.weight" in caught.value.given) == (how == "loss")
    assert all(torch.equal(tensor, before[name]) for name, tensor in engine.model.state_dict().items())
    assert engine.progress.updates == BAD


@pytest.mark.parametrize("how", ["gradient", "loss"])
@pytest.mark.parametrize("window", [1, 2])
def test_a_skipped_step_is_as_if_its_window_had_not_been(
    make_engine: Any, batches: Any, loss_of: Any, how: str, window: int
) -> None:
    settings = Settings(nonfinite="skip", accumulate_steps=window, log_every=1)
    engine = make_engine(train_step=breaking(how, loss_of), settings=settings)
    engine.fit(1)
    start = BAD - BAD % window
    others = batches[:start] + batches[start + window :]
    expected = make_engine(train_data=others, settings=settings)
    expected.fit(1)
    assert equal(engine.model, expected.model)
    assert (engine.progress.skipped, engine.progress.updates) == (1, expected.progress.updates)
    assert [row.get("skipped", 0) for row in engine.history] == [0] * (start + window - 1) + [1] * (6 - start - window)


def test_ignored_means_what_torch_does(make_engine: Any, loss_of: Any) -> None:
    engine = make_engine(train_step=breaking("gradient", loss_of), settings=Settings(nonfinite="ignore"))
    engine.fit(1)
    assert engine.model[0].weight.isnan().all()
    assert engine.progress.updates == 5


@pytest.mark.parametrize("policy", ["raise", "skip"])
def test_with_fp16_a_loss_that_is_not_finite_is_no_overflow(
    make_engine: Any, make_net: Any, batches: Any, loss_of: Any, policy: Any
) -> None:
    engine = make_engine(
        model=make_net().float(),
        train_data=[(x.float(), y.float()) for x, y in batches],
        train_step=breaking("loss", loss_of),
        settings=Settings(precision="fp16", nonfinite=policy),
        runtime=Runtime(scaler=torch.amp.GradScaler("cpu", init_scale=8.0)),
    )
    if policy == "raise":
        with pytest.raises(EngineError, match="at step 2, with a loss of inf"):
            engine.fit(1)
    else:
        engine.fit(1)
        assert (engine.progress.skipped, engine.progress.updates) == (1, 4)


def test_only_the_optimizer_with_the_bad_loss_skips(make_engine: Any, loss_of: Any) -> None:
    def train_step(model, batch, optimizer, step):
        loss = loss_of(model, batch)
        return loss + float("nan") if (optimizer, step) == ("second", BAD) else loss

    engine = make_engine(
        train_step=train_step,
        optimizers=lambda model: {
            "first": torch.optim.SGD(model[0].parameters(), lr=0.1),
            "second": torch.optim.SGD(model[2].parameters(), lr=0.1),
        },
        settings=Settings(nonfinite="skip", accumulate_steps=5),
    )
    engine.fit(2)
    assert engine.progress.updates_of == {"first": 2, "second": 1}


def test_sparse_gradients_are_looked_at() -> None:
    table = nn.Embedding(5, 2, sparse=True)
    table(torch.tensor([1, 3])).sum().backward()
    assert gradient_norm([table.weight]).item() == 2.0
    table.weight.grad._values()[0, 0] = float("nan")
    assert not gradient_norm([table.weight]).isfinite()


def test_values_are_clipped(make_engine: Any, batches: Any, loss_of: Any, make_net: Any) -> None:
    net = make_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    for batch in batches:
        optimizer.zero_grad()
        loss_of(net, batch).backward()
        torch.nn.utils.clip_grad_value_(net.parameters(), 0.05)
        torch.nn.utils.clip_grad_norm_(net.parameters(), 0.2)
        optimizer.step()
    engine = make_engine(
        optimizers=lambda model: torch.optim.SGD(model.parameters(), lr=0.5),
        settings=Settings(gradient_clip_value=0.05, gradient_clip_norm=0.2),
    )
    engine.fit(1)
    assert equal(engine.model, net)
