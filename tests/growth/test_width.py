"""From what is asked for to width steps."""

import ast
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from growkit import discover
from growkit.axes.axis import Equality, Lock, Number
from growkit.axes.expressions import Concat, Fixed, Leaf, Product
from growkit.axes.table import AxisTable
from growkit.errors import AxisLockedError, GrowkitError, NameLookupError, PlanError, SizeError, TieError
from growkit.growth.plan import NumberStep, WidthStep
from growkit.growth.width import number_steps, warnings, width_steps
from tests.growth.nets import conformer, mlp, residual, rows, utterances


@pytest.fixture(scope="module")
def plain() -> AxisTable:
    return discover(mlp(), rows())


@pytest.fixture(scope="module")
def stream() -> AxisTable:
    return discover(residual(), rows())


@pytest.fixture(scope="module")
def speech() -> AxisTable:
    return discover(conformer(), utterances())


def test_sizes_and_factors(plain: AxisTable) -> None:
    assert width_steps(plain, {"0.weight[0]": 8}) == (WidthStep("0.weight[0]", 5, 8, "fresh"),)
    assert width_steps(plain, {"0.weight[0]": 1.6}) == (WidthStep("0.weight[0]", 5, 8, "fresh"),)


def test_a_name_for_several_axes_grows_all(speech: AxisTable) -> None:
    steps = width_steps(speech, {"ffn_dim": 2.0})
    assert [(s.axis.split(".")[3], s.new) for s in steps] == [("feed_forward1", 10), ("feed_forward2", 10)]


def test_of_a_group_those_that_have_the_size_stay(speech: AxisTable) -> None:
    wide = replace(speech, axes=tuple(replace(a, size=10) if "feed_forward1" in a.name else a for a in speech.axes))
    assert [s.axis for s in width_steps(wide, {"**.linear1.weight[0]": 10})] == [
        "encoder.layers.0.feed_forward2.linear1.weight[0]"
    ]


def _methods(table: AxisTable, widen: dict[str, int | float], methods: object = None) -> dict[str, str]:
    return {s.axis.split(".")[-3 if "feed" in s.axis else -2]: s.method for s in width_steps(table, widen, methods)}  # type: ignore[arg-type]


def test_hidden_units_heads_and_channels_grow_fresh(speech: AxisTable) -> None:
    steps = width_steps(speech, {"ffn_dim": 7, "num_heads": 3, "conv_channels": 6, "output.weight[0]": 5})
    assert len(steps) == 5
    assert {s.method for s in steps} == {"fresh"}


def test_a_stream_is_copied_where_a_fresh_axis_reads_it(speech: AxisTable, stream: AxisTable) -> None:
    for table, name, reader in ((speech, "model_dim", "ffn_dim"), (stream, "first.weight[0]", "blocks.0.up.weight[0]")):
        steps = width_steps(table, {name: 2.0, reader: 2.0})
        assert [
            (s.method, s.new) for s in steps if s.axis.endswith(("first.weight[0]", "input_projection.weight[0]"))
        ] == [("copy", 8)]
        assert {s.method for s in steps} == {"copy", "fresh"}


def test_a_stream_without_norm_grows_fresh_if_nothing_fresh_reads_it() -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.up, self.down, self.last = (nn.Linear(*s) for s in ((3, 4), (4, 5), (5, 4), (4, 2)))

        def forward(self, x: Tensor) -> Tensor:
            x = self.first(x)
            return self.last(x + self.down(torch.tanh(self.up(x))))

    table = discover(Sum().double(), rows())
    assert [s.method for s in width_steps(table, {"first.weight[0]": 7})] == ["fresh"]
    assert [s.method for s in width_steps(table, {"first.weight[0]": 7, "up.weight[0]": 6})] == ["copy", "fresh"]


def test_a_norm_leaves_copies_only(stream: AxisTable) -> None:
    assert [s.method for s in width_steps(stream, {"first.weight[0]": 8})] == ["copy"]


def test_methods_are_chosen_for_all_or_by_name(plain: AxisTable) -> None:
    widen = {"0.weight[0]": 7, "2.weight[0]": 6}
    assert [s.method for s in width_steps(plain, widen, "copy")] == ["copy", "copy"]
    assert [s.method for s in width_steps(plain, widen, {"2.weight[0]": "copy"})] == ["fresh", "copy"]
    with pytest.raises(NameLookupError, match="did you mean 'copy'"):
        width_steps(plain, widen, "copies")
    with pytest.raises(NameLookupError):
        width_steps(plain, widen, {"nothing": "copy"})


@pytest.mark.parametrize(
    ("widen", "kind", "texts"),
    [
        ({"0.weight[0]": 4}, SizeError, ["'0.weight[0]': 4 would shrink axis '0.weight[0]' from 5 to 4", "write 4.0"]),
        ({"0.weight[0]": 2}, SizeError, ["would shrink", "for a factor write 2.0"]),
        ({"0.weight[0]": -1}, SizeError, ["would shrink", "ask for a larger size"]),
        ({"0.weight[0]": 0.4}, SizeError, ["would shrink axis '0.weight[0]' from 5 to 2"]),
        ({"0.weight[0]": 1.5}, SizeError, ["(5 units) gives 7.5", "ask for a size instead: 7 or 8"]),
        ({"0.weight[0]": 1.1}, SizeError, ["gives 5.5", "ask for a size instead: 6"]),
        ({"0.weight[0]": 0.5}, SizeError, ["gives 2.5", "ask for a size instead: 10"]),
        ({"0.weight[0]": float("nan")}, SizeError, ["factor nan", "ask for a size instead: 10"]),
        ({"0.weight[0]": float("inf")}, SizeError, ["gives inf", "ask for a size instead: 10"]),
        ({"0.weight[0]": "8"}, SizeError, ["'8' of type str", "write for instance 10 or 2.0"]),
        ({"0.weight[0]": True}, SizeError, ["True of type bool"]),
        ({"0.weight[0]": 5}, SizeError, ["5 changes nothing, the size is 5 already"]),
        ({"0.weight[0]": 1.0}, SizeError, ["1.0 changes nothing"]),
        ({"0.weight[0]": 6, "2.weight[1]": 7}, SizeError, ["asked to grow to 6 and to 7 (by '2.weight[1]')"]),
        ({"0.weight[1]": 6}, AxisLockedError, ["axis '0.weight[1]' (3 -> 6)", "it is an input of the model"]),
        ({"0.wieght[0]": 6}, NameLookupError, ["did you mean '0.weight[0]'"]),
        ({"weight[0]": 6}, NameLookupError, ["fits 3 axes", "2.weight[0] (hidden, 4)"]),
    ],
)
def test_what_cannot_be_is_refused(
    plain: AxisTable, widen: dict[str, int | float], kind: type[GrowkitError], texts: list[str]
) -> None:
    with pytest.raises(kind) as error:
        width_steps(plain, widen)
    assert all(text in str(error.value) for text in texts), str(error.value)


def test_the_same_axis_asked_twice_for_one_size_is_one_step(plain: AxisTable) -> None:
    assert len(width_steps(plain, {"0.weight[0]": 6, "2.weight[1]": 6})) == 1


def test_a_layer_norm_admits_multiples_only(speech: AxisTable) -> None:
    with pytest.raises(SizeError) as error:
        width_steps(speech, {"model_dim": 6}, "copy")
    assert "from 4 to 6 by 'copy'" in error.value.given
    assert "8, 12, 16" in error.value.allowed
    # one block: its norms take the mean of the stream away, and the head reads behind the last of them
    assert width_steps(speech, {"model_dim": 6})[0].method == "std_pad"
    with pytest.raises(SizeError, match="by 'fresh'"):
        width_steps(speech, {"model_dim": 8}, "fresh")


def test_a_locked_axis_says_where_and_why(speech: AxisTable) -> None:
    with pytest.raises(AxisLockedError) as error:
        width_steps(speech, {"encoder.layers.0.convolution.depthwise.weight[2]": 9})
    assert "encoder.layers.0.convolution" in error.value.allowed


def test_outputs_grow_by_new_units_only(plain: AxisTable) -> None:
    assert [s.method for s in width_steps(plain, {"4.weight[0]": 4})] == ["fresh"]
    assert [s.method for s in width_steps(plain, {"4.weight[0]": 4}, "zero_pad")] == ["zero_pad"]
    with pytest.raises(SizeError, match="old units first, then new ones"):
        width_steps(plain, {"4.weight[0]": 4}, "copy")


def test_a_size_that_was_meant_as_something_else(plain: AxisTable) -> None:
    with pytest.raises(SizeError, match="was a factor meant"):
        width_steps(plain, {"0.weight[0]": 10**9})


A, B = Leaf("0.weight[0]"), Leaf("2.weight[0]")


def _tied(table: AxisTable, *sizes: object) -> AxisTable:
    return replace(table, numbers=(Number("net.width", None, 4, sizes, True),))  # type: ignore[arg-type]


def test_axes_tied_by_a_number_grow_together(plain: AxisTable) -> None:
    equal = replace(plain, axes=tuple(replace(a, size=4) if a.size == 5 else a for a in plain.axes))
    with pytest.raises(TieError) as error:
        width_steps(_tied(equal, A, B), {"0.weight[0]": 8})
    assert "the number 'net.width' sizes '0.weight[0]', '2.weight[0]', which would become 8, 4" in error.value.given
    assert error.value.next_step == "pass widen={'0.weight[0]': 8, '2.weight[0]': 8}"
    assert len(width_steps(_tied(equal, A, B), {"0.weight[0]": 8, "2.weight[0]": 8})) == 2
    stuck = replace(equal, axes=tuple(replace(a, locks=(Lock("it must not", "", ""),)) for a in equal.axes))
    with pytest.raises(TieError, match="leave these axes as they are: .*'2.weight\\[0\\]' cannot, it must not"):
        width_steps(_tied(stuck, A, B), {"0.weight[0]": 8})
    parts = replace(equal, numbers=(), equalities=(Equality((A, B), "split in net"),))
    with pytest.raises(TieError, match=r"split in net \(equal parts\) sizes"):
        width_steps(parts, {"0.weight[0]": 8})


@pytest.mark.parametrize(
    ("sizes", "widen", "complete"),
    [
        # 5 = 5: twice the one product is twice one factor of the other, not of both
        ((Product((A, Fixed(4))), Product((A, B))), {"2.weight[0]": 8}, None),
        ((Product((A, B)), Product((Fixed(5), B))), {"0.weight[0]": 10}, None),
        ((Product((A, Fixed(4))), Product((B, Fixed(5)))), {"0.weight[0]": 10}, {"0.weight[0]": 10, "2.weight[0]": 8}),
        ((Concat((A, Fixed(3))), Concat((B, Fixed(4)))), {"0.weight[0]": 8}, {"0.weight[0]": 8, "2.weight[0]": 7}),
        ((Product((A, Fixed(4))), Product((B, Fixed(5)))), {"0.weight[0]": 6}, None),
    ],
)
def test_the_complete_request_holds(
    plain: AxisTable, sizes: tuple[object, ...], widen: dict[str, int], complete: dict[str, int] | None
) -> None:
    table = _tied(plain, *sizes)
    with pytest.raises(TieError) as error:
        width_steps(table, widen)
    if complete is None:
        assert error.value.next_step.startswith("leave these axes as they are")
    else:
        assert error.value.next_step == f"pass widen={complete!r}"
        assert len(width_steps(table, complete)) == 2


def test_what_follows_from_two_sizes_may_take_another_factor(plain: AxisTable) -> None:
    """5 = 5 and 20 = 4 * 5: twice the 20 is 8 * 5 at first sight, which 7 = 7 does not allow."""
    axes = tuple(
        replace(plain.axes[0], name=name, size=size, locks=()) for name, size in zip("shd", (20, 4, 5), strict=True)
    )
    s, h, d, k = (Leaf(name) for name in "shdk")
    table = replace(plain, axes=(*axes, replace(axes[2], name="k")), numbers=(), layouts={})
    table = replace(table, equalities=(Equality((s, Product((h, d))), "stream"), Equality((d, k), "dims")))
    for widen in ({"s": 40, "k": 10}, {"k": 10}):
        with pytest.raises(TieError) as error:
            width_steps(table, widen)
        assert error.value.next_step.startswith("pass widen=")
        assert ast.literal_eval(error.value.next_step.removeprefix("pass widen=")) == {"s": 40, "d": 10, "k": 10}
    shared = replace(table, equalities=(Equality((Product((h, k)), Product((h, d))), "heads"),))
    with pytest.raises(TieError) as error:
        width_steps(shared, {"k": 10})
    assert error.value.next_step == "pass widen={'k': 10, 'd': 10}"


def test_numbers_follow(speech: AxisTable) -> None:
    steps = number_steps(speech, width_steps(speech, {"model_dim": 8, "layers.0.attention.num_heads": 3}))
    found = {(s.path, s.index): (s.old, s.new) for s in steps}
    assert found["encoder.model_dim", None] == (4, 8)
    assert found["encoder.layers.0.attention.num_heads", None] == (2, 3)
    assert found["encoder.layers.0.attention.query.out_features", None] == (4, 6)
    assert found["encoder.layers.0.final_norm.normalized_shape", 0] == (4, 8)
    assert not any("conv_channels" in path or "output.out" in path for path, _ in found)
    assert NumberStep("encoder.model_dim", None, 4, 8) in steps


def test_copies_that_nothing_tells_apart_are_named(stream: AxisTable) -> None:
    alone = width_steps(stream, {"first.weight[0]": 8})
    assert [w.partition(" stay")[0] for w in warnings(stream, alone)] == ["copies on 'first.weight[0]'"]
    assert warnings(stream, width_steps(stream, {"first.weight[0]": 8, "blocks.1.up.weight[0]": 6})) == ()
    assert warnings(stream, width_steps(stream, {"blocks.1.up.weight[0]": 6})) == ()
    both = width_steps(stream, {"first.weight[0]": 8, "blocks.0.up.weight[0]": 6}, "copy")
    assert len(warnings(stream, both)) == 2


def test_methods_that_would_be_ignored_are_refused() -> None:
    table = discover(residual(), rows())
    with pytest.raises(PlanError, match=r"method 'copy' for 'blocks.1.up.weight\[0\]', which does not grow"):
        width_steps(table, {"blocks.0.up.weight[0]": 7}, {"blocks.1.up.weight[0]": "copy"})
    both = {"blocks.*.up.weight[0]": "copy", "blocks.0.up.weight[0]": "fresh"}
    with pytest.raises(PlanError, match="methods 'copy' and 'fresh' for axis"):
        width_steps(table, {"blocks.0.up.weight[0]": 7}, both)


@pytest.mark.parametrize(
    ("factor", "multiple_of", "size"), [(1.3, 8, 8), (2.1, 4, 12), (1.5, 1, 8), (2.0, 5, 10), (1.1, 1, 6)]
)
def test_multiple_of_rounds_what_a_factor_gives_up(factor: float, multiple_of: int, size: int) -> None:
    """Five units."""
    table = discover(residual(), rows())
    (step,) = width_steps(table, {"blocks.0.up.weight[0]": factor}, multiple_of=multiple_of)
    assert (step.old, step.new) == (5, size)


@pytest.mark.parametrize("multiple_of", [0, -8, 2.0, True])
def test_no_multiple(multiple_of: object) -> None:
    with pytest.raises(SizeError, match="multiple_of="):
        width_steps(discover(residual(), rows()), {"blocks.0.up.weight[0]": 1.3}, multiple_of=multiple_of)
