"""What takes the temperature of attention: parts of parameters, and what is padded and cut on the way."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from growkit.discovery.discover import discover
from growkit.testing.sweep import Sweep
from growkit.testing.zoo import ZOO

WIDTH, TIME, FROM = 5, 4, 3


def corrected(model: nn.Module, inputs: object, axis: str) -> set[str]:
    """Where the corrections of an axis are made."""
    return {str(correction.target) for correction in discover(model, inputs)[axis][0].corrections}


def test_a_part_of_a_packed_parameter_takes_it() -> None:
    model, inputs = ZOO["MultiheadAttention, two tensors"].make()
    axis = "attention.in_proj_weight[0].1"
    assert corrected(model, inputs, axis) == {"attention.in_proj_weight[0].1", "attention.in_proj_bias[0].1"}
    assert Sweep(model, inputs).grow({axis: 6}, "copy").outcome == "exact"


def test_scores_that_are_padded_and_cut_pass_it_on() -> None:
    model, inputs = ZOO["growkit Conformer"].make()
    axis = "layers.0.attention.query.weight[0].1"
    names = {f"layers.0.attention.{name}[0].1" for name in ("query.weight", "query.bias")}
    names |= {f"layers.0.attention.pos_bias_{letter}[1]" for letter in "uv"}
    assert corrected(model, inputs, axis) == names
    assert Sweep(model, inputs).grow({axis: 6}, "copy").outcome == "exact"


class Packed(nn.Module):
    """Attention whose queries and keys are parts of one tensor; `elsewhere`: the queries are read once more."""

    def __init__(self, elsewhere: bool):
        super().__init__()
        self.both, self.value = nn.Linear(WIDTH, 2 * FROM), nn.Linear(WIDTH, WIDTH)
        self.elsewhere = elsewhere

    def forward(self, x: Tensor) -> Tensor:
        query, key = self.both(x).split(self.both.out_features // 2, -1)
        weight = (query @ key.transpose(-2, -1) * query.size(-1) ** -0.5).softmax(-1)
        result = weight @ self.value(x)
        return result + query.abs().sum(-1, keepdim=True) if self.elsewhere else result


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_part_that_is_read_elsewhere_too_takes_nothing(elsewhere: bool) -> None:
    torch.manual_seed(0)
    sweep = Sweep(Packed(elsewhere).double().eval(), torch.randn(2, TIME, WIDTH, dtype=torch.float64))
    axis = sweep.table["both.weight[0].0"][0]
    sweep.grow({axis.name: 2 * FROM}, "copy")
    assert not sweep.of("wrong") + sweep.of("caught")
    assert bool(sweep.of("exact")) is not elsewhere, sweep.attempts


class Placed(nn.Module):
    """Attention with a mask that the queries make, of weights or of a layer (`own`); `tempered` by the kernel."""

    def __init__(self, own: bool, tempered: bool):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, FROM) for _ in range(3))
        self.places = nn.Embedding(TIME, FROM)
        self.position = nn.Linear(FROM, FROM)
        self.own, self.tempered = own, tempered
        self.scale = FROM**-0.5

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.query(x), self.key(x), self.value(x)
        places = self.places(torch.arange(x.size(1)))
        places = self.position(places) if self.own else places
        mask = query @ places.T * self.scale
        scale = None if self.tempered else self.scale
        scores = nn.functional.scaled_dot_product_attention
        return scores(query[:, None], key[:, None], value[:, None], mask[:, None], scale=scale)[:, 0]


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("tempered", [False, True])
@pytest.mark.parametrize("method", ["copy", "mean_pad", "std_pad", "fresh", "zero_pad", "isometric"])
def test_a_mask_that_the_queries_make_is_kept_too(own: bool, tempered: bool, method: str) -> None:
    torch.manual_seed(0)
    sweep = Sweep(Placed(own, tempered).double().eval(), torch.randn(2, TIME, WIDTH, dtype=torch.float64))
    for new in (2 * FROM, 2 * FROM - 1):
        sweep.grow({"query.weight[0]": new}, method)
    assert not sweep.of("wrong") + sweep.of("caught"), sweep.attempts
    if method in ("fresh", "copy"):
        assert sweep.of("exact"), sweep.attempts


class Shared(nn.Module):
    """Two layers of attention that ask one place for the number of units in a head."""

    def __init__(self, on_queries: bool):
        super().__init__()
        self.layers = nn.ModuleList([nn.ModuleList([nn.Linear(WIDTH, FROM) for _ in range(3)]) for _ in range(2)])
        self.back = nn.Linear(FROM, WIDTH)
        self.sizes = {"head": FROM}
        self.on_queries = on_queries

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            query, key, value = (part(x).view(-1, TIME, self.sizes["head"]) for part in layer)
            scale = self.sizes["head"] ** -0.5
            scores = (query * scale) @ key.mT if self.on_queries else (query @ key.mT) * scale
            x = x + self.back(scores.softmax(-1) @ value)
        return x


@pytest.mark.parametrize("on_queries", [False, True])
@pytest.mark.parametrize("method", ["copy", "fresh"])
def test_one_number_is_the_temperature_of_every_layer(on_queries: bool, method: str) -> None:
    torch.manual_seed(0)
    sweep = Sweep(Shared(on_queries).double().eval(), torch.randn(2, TIME, WIDTH, dtype=torch.float64))
    attempt = sweep.grow({"layers.0.0.weight[0]": 2 * FROM}, method)
    assert attempt.outcome == "exact", attempt.reason
    assert {name for name in attempt.widen if name.endswith(".0.weight[0]")} == {
        "layers.0.0.weight[0]",
        "layers.1.0.weight[0]",
    }


class Rotated(nn.Module):
    """Attention with rotated queries and keys behind norms, whose gain is `1 + gain` if it is `shifted`."""

    def __init__(self, shifted: bool):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, 2 * FROM) for _ in range(3))
        self.gains = nn.ParameterList([torch.rand(2 * FROM), torch.rand(2 * FROM)])
        self.frequencies = nn.Buffer(torch.rand(FROM))
        self.scale = (2 * FROM) ** -0.5
        self.shifted = shifted

    def forward(self, x: Tensor) -> Tensor:
        query, key = (
            self.rotated(part(x), 1.0 + gain if self.shifted else gain)
            for part, gain in zip((self.query, self.key), self.gains, strict=True)
        )
        return (query @ key.mT * self.scale).softmax(-1) @ self.value(x)

    def rotated(self, x: Tensor, gain: Tensor) -> Tensor:
        x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-9) * gain
        angles = torch.arange(x.size(1))[:, None] * self.frequencies
        first, second = x.chunk(2, -1)
        turned = torch.cat([-second, first], -1)
        return x * torch.cat([angles, angles], -1).cos() + turned * torch.cat([angles, angles], -1).sin()


@pytest.mark.parametrize("shifted", [False, True])
def test_a_gain_beside_a_number_takes_it_in_both_halves(shifted: bool) -> None:
    torch.manual_seed(0)
    sweep = Sweep(Rotated(shifted).double().eval(), torch.randn(2, TIME, WIDTH, dtype=torch.float64))
    attempt = sweep.grow({"query.weight[0].0": 2 * FROM}, "copy")
    assert attempt.outcome == "exact", attempt.reason
    targets = corrected(sweep.model, sweep.inputs, "query.weight[0].0")
    assert {"gains.0[0].0", "gains.0[0].1"} <= targets
