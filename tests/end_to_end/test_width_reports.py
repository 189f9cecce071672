"""Public reports of neighbouring tools about widening: the same input, and what growkit does. Rows by number."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import growkit as gk
from growkit.errors import AxisLockedError, NameLookupError, PlanError, SizeError
from growkit.testing import assert_function_preserved, assert_unchanged, randomise

IMAGE = torch.randn(2, 3, 6, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
ROWS = torch.randn(4, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def double(*layers: nn.Module) -> nn.Sequential:
    model = nn.Sequential(*layers).double().eval()
    randomise(model)
    return model


def grown(model: nn.Module, widen: dict[str, int | float], inputs: Tensor, method: str | None = None) -> nn.Module:
    """A grown copy that computes the same in float64."""
    after = copy.deepcopy(model)
    gk.grow(after, widen=widen, method=method, example_inputs=inputs)
    assert_function_preserved(model, after, inputs)
    return after


@pytest.mark.report("R002")
def test_a_convolution_without_bias_gets_none() -> None:
    model = double(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 1))
    after = grown(model, {"0.weight[0]": 12}, IMAGE)
    assert after[0].bias is None
    assert after[0].weight.shape == (12, 3, 3, 3)
    assert torch.equal(after[3].bias, model[3].bias)


@pytest.mark.report("R003")
def test_every_new_weight_gets_a_gradient_within_two_steps() -> None:
    model = double(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3)).train()
    after = grown(model, {"2.weight[0]": 12}, ROWS)
    optimizer = torch.optim.SGD(after.parameters(), lr=0.1)
    seen = [torch.zeros_like(p, dtype=torch.bool) for p in after.parameters()]
    for _ in range(2):
        optimizer.zero_grad()
        after(ROWS).square().mean().backward()
        seen = [s | (p.grad != 0) for s, p in zip(seen, after.parameters(), strict=True)]
        optimizer.step()
    assert all(s.all() for s in seen)


class ResidualTower(nn.Module):
    """conv-bn-relu-conv-bn beside a skip, then policy and value heads as one linear layer."""

    def __init__(self, channels: int):
        super().__init__()
        self.enter = nn.Conv2d(3, channels, 3, padding=1)
        self.conv1, self.norm1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)
        self.conv2, self.norm2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)
        self.leave = nn.Linear(channels, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.enter(x))
        x = F.relu(self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))) + x)
        return self.leave(x.mean((-2, -1)))


@pytest.mark.report("R004")
def test_a_residual_tower_is_kept_exactly_and_verified() -> None:
    model = randomise(ResidualTower(64)).eval()
    after = copy.deepcopy(model)
    report = gk.grow(after, widen={"conv1.weight[0]": 96, "enter.weight[0]": 96}, example_inputs=IMAGE.float())
    assert report.verification is not None
    assert report.verification.passed
    assert report.verification.max_rel <= report.verification.tolerance < 1e-3
    assert after.conv1.weight.shape == after.conv2.weight.shape == (96, 96, 3, 3)
    assert_function_preserved(model, after, IMAGE)


@pytest.mark.report("R007")
def test_only_what_was_asked_for_changes() -> None:
    model = double(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))
    table = gk.discover(model, ROWS)
    first = gk.make_plan(table, widen={"0.weight[0]": 8})
    gk.make_plan(table, widen={"2.weight[0]": 9})  # pending, never applied
    after = copy.deepcopy(model)
    gk.grow(after, first, example_inputs=ROWS)
    assert after[2].weight.shape == (7, 8)
    for name in ("2.bias", "4.weight", "4.bias"):
        assert torch.equal(after.get_parameter(name), model.get_parameter(name))


@pytest.mark.report("R008")
@pytest.mark.parametrize("method", ["copy", "net2net", "fresh"])
def test_what_follows_a_layer_has_its_real_width(method: str) -> None:
    model = double(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.PReLU(4), nn.Conv2d(4, 2, 1))
    after = grown(model, {"0.weight[0]": 7}, IMAGE, method)
    assert after[0].out_channels == after[1].num_features == after[2].num_parameters == after[3].in_channels == 7
    assert {len(t) for t in (*after[1].parameters(), *after[2].parameters(), after[1].running_var)} == {7}


@pytest.mark.report("R010")
def test_slopes_follow_their_units_and_names_stay_unique_over_many_growths() -> None:
    model = double(nn.Linear(6, 4), nn.PReLU(4), nn.Linear(4, 3))
    after = grown(model, {"0.weight[0]": 6}, ROWS, "copy")
    assert torch.equal(after[1].weight, model[1].weight[[0, 1, 2, 3, 0, 1]])
    for size in range(7, 37):
        gk.grow(after, widen={"0.weight[0]": size}, example_inputs=ROWS)
    assert after[1].weight.shape == (36,)
    assert [axis.name for axis in gk.discover(after, ROWS)] == ["0.weight[0]", "0.weight[1]", "2.weight[0]"]
    assert_function_preserved(model, after, ROWS)


class Branches(nn.Module):
    """Two branches side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.leave = nn.Linear(6, 3), nn.Linear(6, 1), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.leave(torch.cat([self.a(x), self.b(x)], -1))


@pytest.mark.report("R012")
def test_of_two_branches_side_by_side_one_grows() -> None:
    model = randomise(Branches().double())
    after = grown(model, {"a.weight[0]": 5}, ROWS, "fresh")
    assert torch.equal(after.b.weight, model.b.weight)
    assert torch.equal(after.leave.weight[:, [0, 1, 2, 5]], model.leave.weight)
    assert torch.equal(after.leave.weight[:, 3:5], torch.zeros(1, 2, dtype=torch.float64))


@pytest.mark.report("R015")
def test_one_channel_after_a_pixel_shuffle_is_four_before_it() -> None:
    model = double(nn.Conv2d(3, 16, 1), nn.PixelShuffle(2), nn.Conv2d(4, 8, 1))
    after = grown(model, {"2.weight[1]": 5}, IMAGE)
    assert after[0].weight.shape == (20, 3, 1, 1)
    assert (after[0].out_channels, after[2].in_channels) == (20, 5)


class Generator(nn.Module):
    """A linear layer seen as channels and space; the channels are written in the code."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(6, 16), nn.ConvTranspose2d(4, 3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.leave(self.enter(x).view(-1, 4, 2, 2))


@pytest.mark.report("R016")
def test_channels_of_a_transposed_convolution_come_in_blocks_of_a_linear_layer() -> None:
    model = double(nn.Linear(6, 16), nn.Unflatten(1, (4, 2, 2)), nn.ConvTranspose2d(4, 3, 2))
    after = grown(model, {"2.weight[0]": 6}, ROWS, "copy")
    blocks = [0, 1, 2, 3, 0, 1]
    assert torch.equal(after[0].weight, model[0].weight.view(4, 4, 6)[blocks].view(24, 6))
    assert after[1].unflattened_size == (6, 2, 2)
    assert after[2].weight.shape == (6, 3, 2, 2)
    with pytest.raises(AxisLockedError, match="its size 4 is written in the code"):
        gk.grow(Generator(), widen={"leave.weight[0]": 6}, example_inputs=ROWS.float())


@pytest.mark.report("R017")
def test_every_group_of_a_convolution_gets_as_many_new_channels() -> None:
    x = torch.randn(2, 5, 6, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    model = double(nn.Conv2d(5, 8, 1), nn.Conv2d(8, 16, 3, groups=4), nn.Conv2d(16, 3, 1))
    with pytest.raises(NameLookupError) as caught:  # 12 channels: more groups, or more in each?
        gk.grow(model, widen={"0.weight[0]": 12}, example_inputs=x)
    assert "0.weight[0].0 (channels, 4), 0.weight[0].1 (channels, 2)" in caught.value.allowed
    inside = grown(model, {"0.weight[0].1": 3}, x)
    assert (inside[0].out_channels, inside[1].in_channels, inside[1].groups) == (12, 12, 4)
    assert inside[1].weight.shape == (16, 3, 3, 3)
    groups = grown(model, {"1.groups": 6}, x)
    assert (groups[0].out_channels, groups[1].out_channels, groups[1].groups) == (12, 24, 6)


class Attention(nn.Module):
    """Keeps its heads, their width and the product of both; keys and values may have one head for all."""

    def __init__(self, heads: int, head_dim: int, key_heads: int):
        super().__init__()
        self.num_heads, self.head_dim, self.dim_out, self.key_heads = heads, head_dim, heads * head_dim, key_heads
        self.query = nn.Linear(6, heads * head_dim)
        self.key, self.value = (nn.Linear(6, key_heads * head_dim) for _ in range(2))
        self.out = nn.Linear(heads * head_dim, 6)

    def forward(self, x: Tensor) -> Tensor:
        query = self.query(x).unflatten(-1, (self.num_heads, -1)).transpose(-2, -3)
        key, value = (
            layer(x).unflatten(-1, (self.key_heads, -1)).transpose(-2, -3) for layer in (self.key, self.value)
        )
        mixed = (query @ key.transpose(-1, -2) * self.head_dim**-0.5).softmax(-1) @ value
        return self.out(mixed.transpose(-2, -3).reshape(*x.shape[:-1], self.dim_out))


SEQUENCE = torch.randn(2, 5, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


@pytest.mark.report("R019")
def test_all_attributes_that_keep_a_size_follow() -> None:
    model = randomise(Attention(4, 3, 4).double())
    after = grown(model, {"num_heads": 6}, SEQUENCE)
    assert (after.num_heads, after.key_heads, after.head_dim, after.dim_out) == (6, 6, 3, 18)
    assert after.out.in_features == 18


@pytest.mark.report("R021")
def test_query_heads_grow_over_one_key_head() -> None:
    model = randomise(Attention(4, 3, 1).double())
    after = grown(model, {"num_heads": 8}, SEQUENCE)
    assert (after.num_heads, after.key_heads, after.dim_out) == (8, 1, 24)
    assert after.query.weight.shape == (24, 6)
    assert after.key.weight.shape == (3, 6)


class RawParameters(nn.Module):
    """A scale and a table of positions that are plain parameters; one more that the forward pass never reads."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(6, 4), nn.Linear(4, 2)
        self.gamma, self.position = nn.Parameter(torch.ones(4)), nn.Parameter(torch.zeros(1, 5, 4))
        self.unused = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.leave(torch.tanh(self.enter(x) * self.gamma + self.position))


@pytest.mark.report("R023")
def test_raw_parameters_are_traced_not_guessed_by_their_size() -> None:
    model = randomise(RawParameters().double())
    with pytest.raises(PlanError, match="the run never read unused, of 4 units"):  # it may belong to what grows
        gk.grow(model, widen={"enter.weight[0]": 6}, example_inputs=SEQUENCE)
    after = copy.deepcopy(model)
    gk.grow(after, widen={"enter.weight[0]": 6}, example_inputs=SEQUENCE, leave=["unused"])
    assert_function_preserved(model, after, SEQUENCE)
    assert after.gamma.shape == (6,)
    assert after.position.shape == (1, 5, 6)
    assert torch.equal(after.unused, model.unused)
    with pytest.raises(AxisLockedError, match="not read in the traced run"):
        gk.grow(model, widen={"unused[0]": 6}, example_inputs=SEQUENCE)


@pytest.mark.report("R033")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_new_parameters_have_the_dtype_of_the_old(dtype: torch.dtype) -> None:
    model = double(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Linear(8, 3)).to(dtype)
    gk.grow(model, widen={"0.weight[0]": 12}, example_inputs=ROWS.to(dtype))
    assert {t.dtype for t in [*model.parameters(), model[1].running_mean]} == {dtype}


@pytest.mark.report("R035")
def test_an_embedding_never_shrinks() -> None:
    model = nn.Sequential(nn.Embedding(64, 4), nn.Linear(4, 64))
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(SizeError, match="would shrink"):
        gk.grow(model, widen={"num_embeddings": 50}, example_inputs=torch.tensor([[1, 2]]))
    assert_unchanged(model, before)


@pytest.mark.report("R039")
@pytest.mark.report("R042")
def test_old_outputs_stay_and_the_optimizer_goes_on() -> None:
    model = double(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).train()
    optimizer = torch.optim.Adam(model.parameters())
    model(ROWS).square().mean().backward()
    optimizer.step()
    old, weight, bias = model(ROWS).detach(), model[2].weight, model[2].bias
    gk.grow(model, widen={"2.weight[0]": 5}, optimizers=optimizer, example_inputs=ROWS)
    # the entries of the old classes are bit-equal; a matrix product of another shape may round otherwise
    torch.testing.assert_close(model(ROWS)[:, :3], old, rtol=1e-14, atol=1e-14)
    assert model[2].weight.is_leaf
    assert torch.equal(model[2].weight[:3], weight)
    assert any(model[2].weight is p for p in optimizer.param_groups[0]["params"])
    assert optimizer.state[model[2].weight]["exp_avg"].shape == (5, 8)
    assert torch.equal(model[2].bias[:3], bias)


@pytest.mark.report("R089")
def test_a_layer_with_weight_norm_grows_and_the_norm_stays() -> None:
    model = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(6, 4)), nn.ReLU(), nn.Linear(4, 2)).double()
    weight, before = model[0].weight.detach().clone(), model(ROWS).detach()
    gk.grow(model, widen={"0.bias[0]": 6}, example_inputs=ROWS)
    torch.testing.assert_close(model(ROWS), before, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(model[0].weight[:4], weight, rtol=1e-14, atol=1e-14)
    assert model[0].parametrizations.weight.original1.shape == (6, 6)
    assert model[0].out_features == 6


@pytest.mark.report("R089")
def test_a_layer_with_spectral_norm_is_refused_and_left_alone() -> None:
    """The largest singular value of a weight changes with its rows."""
    model = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(6, 4)), nn.ReLU(), nn.Linear(4, 2)).double()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(AxisLockedError, match="divided by its largest singular value"):
        gk.grow(model, widen={"0.bias[0]": 6}, example_inputs=ROWS)
    assert_unchanged(model, before)
