"""Runs in eval and train mode, without dropout, that leave no trace."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from growkit.errors import InputsError
from growkit.growth.outputs import relative
from growkit.growth.running import AS_IT_IS, Runs, Way, WithoutDropout
from growkit.testing import randomise
from tests.growth.nets import picture, rows

TRAIN = Way(training=True)
SEQUENCE = torch.linspace(-1, 1, 24, dtype=torch.float64).view(2, 3, 4)


class Calls(nn.Module):
    def __init__(self, forward: Callable[[Any, Tensor], Any], **modules: nn.Module):
        super().__init__()
        self.forward_of = forward
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, x: Tensor) -> Any:
        return self.forward_of(self, x)


def _without(make: Callable[..., nn.Module], *args: Any, **kwargs: Any) -> tuple[nn.Module, nn.Module]:
    """Twins, one with dropout."""
    ours, plain = (randomise(make(*args, dropout=p, **kwargs).double()) for p in (0.4, 0.0))
    plain.load_state_dict(ours.state_dict())
    return ours, plain


@pytest.mark.parametrize("float64", [False, True])
@pytest.mark.parametrize(
    ("ours", "plain"),
    [
        (nn.Dropout(0.4), nn.Identity()),
        (nn.Dropout(0.4, inplace=True), nn.Identity()),
        (nn.Dropout1d(0.4), nn.Identity()),
        (nn.Dropout(0.0), nn.Identity()),
        (Calls(lambda m, x: F.dropout(x, 0.3)), nn.Identity()),
        _without(nn.LSTM, 4, 4, 2, batch_first=True),
        _without(nn.GRU, 4, 4, 3, batch_first=True),
        _without(nn.TransformerEncoderLayer, 4, 2, 8, batch_first=True),
        _without(lambda dropout: Calls(lambda m, x: F.scaled_dot_product_attention(x, x, x, dropout_p=dropout))),
        _without(
            lambda dropout: Calls(
                lambda m, x: m.attention(x, x, x), attention=nn.MultiheadAttention(4, 2, dropout, batch_first=True)
            )
        ),
    ],
    ids=str,
)
def test_dropout_gives_its_input(ours: nn.Module, plain: nn.Module, float64: bool) -> None:
    way = Way(float64, training=True)
    for a, b in zip(Runs(ours, SEQUENCE, None)(way), Runs(plain, SEQUENCE, None)(way), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-14, atol=1e-14)


@torch.no_grad()
def test_kernels_with_dropout_of_their_own() -> None:
    """Those of accelerators, by the names of their arguments."""
    with WithoutDropout():
        result, kept = torch.native_dropout(SEQUENCE, 0.4, True)
    assert torch.equal(result, SEQUENCE)
    assert kept.all()


def test_train_mode_leaves_no_trace() -> None:
    model = randomise(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)).double())
    model[1].eval()
    before = picture(model)
    trained, evaluated = (Runs(model, rows(), None)(way)[0] for way in (TRAIN, AS_IT_IS))
    assert torch.equal(trained, evaluated)  # the norm is frozen, and stays so
    assert picture(model) == before
    model.eval()
    before = picture(model)
    trained = Runs(model, rows(), None)(TRAIN)[0]
    assert relative(evaluated, trained)[1] > 0.01  # wholly in eval mode: all of it is put in train mode
    assert picture(model) == before


def test_a_wrapper_in_train_mode_does_not_count() -> None:
    inner = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).double().eval()
    wrapped, whole = Calls(lambda m, x: m.inner(x), inner=inner), Runs(inner, rows(), None)(TRAIN)
    assert torch.equal(Runs(wrapped, rows(), None)(TRAIN)[0], whole[0])


def test_errors_say_the_mode() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).double()
    with pytest.raises(InputsError) as error:
        Runs(model, rows(1), None)(TRAIN)
    assert error.value.given.endswith("in train mode")
    assert isinstance(error.value.__cause__, ValueError)


def test_randomness_is_seen() -> None:
    noisy = Calls(lambda m, x: x + 1e-3 * torch.randn_like(x))
    noisy_in_training = Calls(lambda m, x: x + torch.rand(()) if m.training else x)
    assert Runs(noisy, rows(), None).are_random(AS_IT_IS, 1e-6)
    assert not Runs(noisy, rows(), None).are_random(AS_IT_IS, 0.1)
    assert not Runs(noisy_in_training, rows(), None).are_random(AS_IT_IS, 1e-6)
    assert Runs(noisy_in_training, rows(), None).are_random(TRAIN, 1e-6)
    state = torch.get_rng_state()
    same = [Runs(noisy, rows(), None)(AS_IT_IS)[0] for _ in range(2)]
    assert torch.equal(*same)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_shaken_weights_are_off_by_one_in_the_last_place(dtype: torch.dtype) -> None:
    """Weights of 1, inputs of 1: outputs of 1 + eps, and of 1 - eps, which both exist."""
    model = nn.Linear(1, 50, bias=False).to(dtype)
    nn.init.ones_(model.weight)
    runs, eps = Runs(model, torch.ones(1, 1, dtype=dtype), None), torch.finfo(dtype).eps
    shaken = [runs(Way(float64=True), shaken=["weight"], signs=signs)[0] for signs in (1, 2)]
    assert all(set(t.flatten().tolist()) == {1 - eps, 1 + eps} for t in shaken)
    assert not torch.equal(*shaken)
    assert set(runs(AS_IT_IS, shaken=["bias"], signs=1)[0].flatten().tolist()) == {1.0}
    assert (model.weight == 1).all()
