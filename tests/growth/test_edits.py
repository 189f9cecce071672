"""New tensors as values."""

from dataclasses import replace
from math import sqrt

import pytest
import torch
from torch import Tensor

from growkit.axes.layouts import Layout
from growkit.growth.edits import Edit, edit
from growkit.maps.lifting import Change, GrownAxis, lift
from growkit.maps.methods.table import method

OLD = torch.arange(6, dtype=torch.float64).reshape(3, 2) + 1


def _edit(text: str, old: Tensor, grown: dict[str, tuple[int, str]], key: str = "0/0", name: str = "w") -> Edit:
    """`grown`: axis -> (new size, method); old sizes are read off single axes."""
    layout = Layout.parse(text)
    sizes = {axis: size for axis, size in zip(layout.axes(), old.shape, strict=True)}
    axes = {a: GrownAxis(method(how).make(sizes[a], new), method(how)) for a, (new, how) in grown.items()}
    return edit(name, old, layout, [lift(dim, sizes, axes) for dim in layout.dims], key)


def test_a_weight_between_two_copied_axes() -> None:
    grown = _edit("out:produces in:consumes", OLD, {"out": (4, "copy"), "in": (4, "copy")})
    half = OLD / 2
    expected = torch.cat([torch.cat([half, half], 1), torch.cat([half[:1], half[:1]], 1)])
    assert torch.equal(grown.value(OLD), expected)
    assert (grown.shape, grown.new_entries) == ((4, 4), 0)


def test_fresh_units_are_drawn_where_produced_and_zero_where_consumed() -> None:
    produced = _edit("out:produces in:consumes", OLD, {"out": (5, "fresh")})
    value = produced.value(OLD)
    assert torch.equal(value[:3], OLD)
    assert produced.bound == 1 / sqrt(2)
    assert (value[3:].abs() <= 1 / sqrt(2)).all()
    assert value[3:].unique().numel() == 4
    assert produced.new_entries == 4
    consumed = _edit("out:produces in:consumes", OLD, {"in": (4, "fresh")})
    assert torch.equal(consumed.value(OLD), torch.cat([OLD, torch.zeros(3, 2)], 1))


def test_an_entry_that_is_new_in_two_dims_is_zero() -> None:
    """A new producer of a new consumer would be read."""
    both = _edit("out:produces in:consumes", OLD, {"out": (4, "fresh"), "in": (4, "fresh")})
    value = both.value(OLD)
    assert torch.equal(value[:, 2:], torch.zeros(4, 2))
    assert (value[3, :2] != 0).all()
    assert both.new_entries == 16 - 6


def test_gains_start_at_one_biases_at_zero_and_variances_at_one() -> None:
    old = torch.tensor([2.0, 3.0])
    expected = {"gain": [1.0], "bias": [0.0], "mean": [0.0], "variance": [1.0], "produces": [0.0]}
    for role, start in expected.items():
        assert _edit(f"unit:{role}", old, {"unit": (3, "fresh")}).value(old)[2:].tolist() == start, role


def test_a_depthwise_kernel_is_drawn() -> None:
    old = torch.ones(2, 1, 3)
    layout = Layout.parse("channel:gain 1 kernel")
    axes = {"channel": GrownAxis(method("fresh").make(2, 4), method("fresh"))}
    grown = edit("w", old, layout, [lift(d, {"channel": 2, "kernel": 3}, axes) for d in layout.dims], "0/0")
    assert grown.bound == 1 / sqrt(3)
    assert grown.value(old)[2:].unique().numel() == 6


def test_fan_in_counts_the_grown_net() -> None:
    assert _edit("out:produces in:consumes", OLD, {"out": (4, "fresh"), "in": (8, "copy")}).bound == 1 / sqrt(8)
    kernel = torch.randn(3, 2, 5)
    assert _edit("out:produces in:consumes k", kernel, {"out": (4, "fresh")}).bound == 1 / sqrt(10)


def test_a_table_is_drawn_at_the_scale_of_its_entries() -> None:
    table = torch.tensor([[3.0, -4.0], [4.0, 3.0]])  # root mean square sqrt(12.5)
    grown = _edit("word width:produces", table, {"width": (2000, "fresh")})
    drawn = grown.value(table)[:, 2:]
    assert grown.bound == pytest.approx(sqrt(3 * 12.5))
    assert float(drawn.square().mean().sqrt()) == pytest.approx(sqrt(12.5), rel=0.05)


def test_draws_are_keyed_and_leave_the_global_generator_alone() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one = _edit("out:produces in:consumes", OLD, {"out": (5, "fresh")})
    values = [one.value(OLD)]
    torch.manual_seed(2)
    assert torch.equal(one.value(OLD), values[0])
    for key, name in (("1/0", "w"), ("0/1", "w"), ("0/0", "v")):
        values.append(_edit("out:produces in:consumes", OLD, {"out": (5, "fresh")}, key, name).value(OLD))
    assert len({tuple(v[3:].flatten().tolist()) for v in values}) == 4
    torch.manual_seed(1)
    assert torch.equal(torch.get_rng_state(), before)


def test_two_growths_in_turn_draw_other_entries() -> None:
    first = _edit("out:produces in:consumes", OLD, {"out": (4, "fresh")}).value(OLD)
    second = _edit("out:produces in:consumes", first, {"out": (5, "fresh")}).value(first)
    assert not torch.equal(second[3], second[4])


def test_both_dims_of_one_tensor_draw_other_entries() -> None:
    table = torch.ones(2, 2)
    value = _edit("a:produces b:produces", table, {"a": (3, "fresh"), "b": (3, "fresh")}).value(table)
    assert value[2, 0] != value[0, 2]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_copy_in_another_dtype_gets_the_same_draws(dtype: torch.dtype) -> None:
    grown = _edit("out:produces in:consumes", OLD, {"out": (5, "fresh")})
    value = grown.value(OLD.to(dtype))
    assert value.dtype == dtype
    assert torch.equal(value, grown.value(OLD).to(dtype))


def test_the_value_is_new_memory_without_gradient() -> None:
    old = torch.nn.Parameter(OLD.clone())
    value = _edit("out:produces in:consumes", old, {"out": (4, "copy")}).value(old)
    value.zero_()
    assert torch.equal(old.data, OLD)
    assert not value.requires_grad


def test_on_the_meta_device_there_are_shapes() -> None:
    old = torch.empty(3, 2, device="meta")
    value = _edit("out:produces in:consumes", old, {"out": (5, "fresh")}).value(old)
    assert (value.device.type, tuple(value.shape)) == ("meta", (5, 2))
    table = _edit("word width:produces", old, {"width": (4, "fresh")})
    assert tuple(table.value(old).shape) == (3, 4)


def test_channels_last_stays() -> None:
    old = torch.randn(3, 2, 4, 4).to(memory_format=torch.channels_last)
    grown = _edit("out:produces in:consumes h w", old, {"out": (5, "fresh"), "in": (3, "fresh")})
    assert grown.value(old).is_contiguous(memory_format=torch.channels_last)
    assert replace(grown, bound=None).value(old)[3:].abs().max() == 0


@pytest.mark.parametrize(
    ("how", "new", "wide", "half"),
    [("copy", 4, False, True), ("copy", 6, False, True), ("copy", 9, True, True), ("fresh", 9, False, False)],
)
def test_only_shares_that_are_no_powers_of_two_round_old_entries(how: str, new: int, wide: bool, half: bool) -> None:
    """3 units to 4, 6 and 9: shares of 1, 1/2 and 1/3. In float16, 2**-24 has no half."""
    found = _edit("in:consumes out:produces", OLD, {"in": (new, how)})
    assert [found.rounds(dtype) for dtype in (torch.float64, torch.float32, torch.bfloat16)] == [wide] * 3
    assert found.rounds(torch.float16) == half


def test_new_writers_hold_the_mean_of_the_old_ones() -> None:
    """Rows (1, 2), (3, 4), (5, 6): the mean is (3, 4); a column that is new too is drawn before the mean is taken."""
    grown = _edit("out:produces in:consumes", OLD, {"out": (5, "mean_pad")})
    assert torch.equal(grown.value(OLD), torch.cat([OLD, OLD[1:2], OLD[1:2]]))
    both = _edit("out:produces in:consumes", OLD, {"out": (4, "mean_pad"), "in": (3, "zero_pad")}).value(OLD)
    assert torch.allclose(both[3], both[:3].mean(0))
    assert (both[:, 2] != 0).all()


def test_a_shifted_gain_scales_with_its_shift() -> None:
    """Used as 1 + w: w = 2 takes the factor 1/2 as (1 + 2) / 2 - 1; a new gain of one is zero."""
    old = torch.tensor([2.0, -1.0])
    layout = Layout.parse("unit:gain")
    axis = GrownAxis(method("zero_pad").make(2, 3), method("zero_pad"))
    (dim,) = layout.dims
    dims = [lift(dim, {"unit": 2}, {"unit": axis}, {0: Change(0.5)})]
    grown = edit("w", old, layout, dims, "0/0", shift=1.0)
    assert grown.value(old).tolist() == [0.5, -1.0, 0.0]
    assert grown.gradient(torch.tensor([3.0, 5.0])).tolist() == [6.0, 10.0, 0.0]
