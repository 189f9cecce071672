"""Names of axes: exact, by glob, by attribute, by ending; unknown and ambiguous ones."""

import pytest

from growkit.axes.axis import Axis, Number, Occurrence
from growkit.axes.expressions import Concat, Leaf, Product, Role
from growkit.axes.names import find
from growkit.errors import NameLookupError


def axis(name: str, size: int, kind: str, *others: Occurrence) -> Axis:
    return Axis(name, size, kind, others)


STREAM = axis(
    "input.weight[0]", 4, "stream", *(Occurrence(f"layers.{i}.fc1.weight", 1, 0, None, Role.CONSUMES) for i in (0, 1))
)
FFN = [
    axis(f"layers.{i}.fc1.weight[0]", 8, "hidden", Occurrence(f"layers.{i}.fc2.weight", 1, 0, None, Role.CONSUMES))
    for i in (0, 1)
]
HEADS = [axis(f"layers.{i}.query.weight[0].0", 2, "heads") for i in (0, 1)]
DIM = axis("layers.0.query.weight[0].1", 3, "head_dim")
AXES = [STREAM, *FFN, *HEADS, DIM]
NUMBERS = [
    *(Number(f"layers.{i}.ffn_dim", None, 8, (Leaf(FFN[i].name),), False) for i in (0, 1)),
    *(Number(f"layers.{i}.num_heads", None, 2, (Leaf(HEADS[i].name),), True) for i in (0, 1)),
    Number("layers.0.width", None, 6, (Product((Leaf(HEADS[0].name), Leaf(DIM.name))),), True),
]

MODULES = {f"layers.{i}": "own.Layer" for i in (0, 1)}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("input.weight[0]", [STREAM]),
        ("layers.1.fc1.weight[1]", [STREAM]),
        ("layers.1.fc2.weight[1]", [FFN[1]]),
        ("layers.*.fc1.weight[0]", FFN),
        ("layers.*.weight[0]", None),
        ("**.weight[0]", [STREAM, *FFN]),
        ("**.query.weight[0].0", HEADS),
        ("ffn_dim", FFN),
        ("layers.1.ffn_dim", [FFN[1]]),
        ("layers.*.num_heads", HEADS),
        ("query.weight[0].1", [DIM]),
    ],
)
def test_found(name: str, expected: list[Axis] | None) -> None:
    if expected is None:
        with pytest.raises(NameLookupError, match="fits no axis"):
            find(name, AXES, NUMBERS, MODULES)
    else:
        assert list(find(name, AXES, NUMBERS, MODULES)) == expected


def test_ambiguous_endings_list_the_candidates() -> None:
    with pytest.raises(NameLookupError) as caught:
        find("fc1.weight[0]", AXES, NUMBERS, MODULES)
    assert caught.value.given == "the name 'fc1.weight[0]' fits 2 axes"
    assert "layers.0.fc1.weight[0] (hidden, 8), layers.1.fc1.weight[0] (hidden, 8)" in caught.value.allowed
    assert "'**.fc1.weight[0]'" in caught.value.next_step


def test_an_attribute_of_one_class_is_a_joint_group_whatever_the_sizes() -> None:
    wide = axis("layers.2.fc1.weight[0]", 16, "hidden")
    numbers = [*NUMBERS, Number("layers.2.ffn_dim", None, 16, (Leaf(wide.name),), False)]
    modules = MODULES | {"layers.2": "own.Layer"}
    assert find("ffn_dim", [*AXES, wide], numbers, modules) == (*FFN, wide)
    with pytest.raises(NameLookupError) as caught:
        find("ffn_dim", [*AXES, wide], numbers, MODULES | {"layers.2": "own.Decoder"})
    assert "layers.1.fc1.weight[0] (hidden, 8), layers.2.fc1.weight[0] (hidden, 16)" in caught.value.allowed
    assert find("layers.2.ffn_dim", [*AXES, wide], numbers, modules) == (wide,)


def test_classes_that_keep_the_size_of_the_same_axes_agree() -> None:
    numbers = [*NUMBERS, Number("model.ffn_dim", None, 8, tuple(Leaf(a.name) for a in FFN), True)]
    assert find("ffn_dim", AXES, numbers, MODULES | {"model": "own.Model"}) == tuple(FFN)
    of_one = [*NUMBERS, Number("ffn_dim", None, 8, (Leaf(FFN[0].name),), True)]
    assert find("ffn_dim", AXES, of_one, MODULES | {"": "own.Model"}) == (FFN[0],)


def test_what_torch_keeps_for_the_reader_ties_nothing() -> None:
    """Two linear layers happen to have hidden outputs of one size."""
    kept = [Number(f"layers.{i}.fc1.out_features", None, 8, (Leaf(FFN[i].name),), False) for i in (0, 1)]
    modules = {f"layers.{i}.fc1": "torch.nn.modules.linear.Linear" for i in (0, 1)}
    with pytest.raises(NameLookupError) as caught:
        find("out_features", AXES, kept, modules)
    assert caught.value.given == "the name 'out_features' fits 2 axes"
    assert "layers.0.fc1.weight[0] (hidden, 8), layers.1.fc1.weight[0] (hidden, 8)" in caught.value.allowed
    assert find("layers.1.fc1.out_features", AXES, kept, modules) == (FFN[1],)
    assert find("**.out_features", AXES, kept, modules) == tuple(FFN)
    once = [Number(f"layers.{i}.fc1.in_features", None, 4, (Leaf(STREAM.name),), False) for i in (0, 1)]
    assert find("in_features", AXES, once, modules) == (STREAM,)


def test_an_attribute_of_unlike_axes_is_ambiguous() -> None:
    with pytest.raises(NameLookupError, match=r"'width' fits 2 axes"):
        find("width", AXES, NUMBERS, MODULES)


@pytest.mark.parametrize(
    ("name", "near"),
    [("ffn_dims", "'ffn_dim'"), ("layers.0.fc1.wieght[0]", "'layers.0.fc1.weight[0]'"), ("num_head", "'num_heads'")],
)
def test_unknown_names_get_the_nearest(name: str, near: str) -> None:
    with pytest.raises(NameLookupError) as caught:
        find(name, AXES, NUMBERS, MODULES)
    assert near in caught.value.next_step


def test_nothing_near() -> None:
    with pytest.raises(NameLookupError, match="print the axis table"):
        find("@@@@", AXES, NUMBERS, MODULES)


def test_a_dim_made_of_several_axes_lists_them() -> None:
    with pytest.raises(NameLookupError) as caught:
        find("layers.0.query.weight[0]", AXES, NUMBERS, MODULES)
    assert "layers.0.query.weight[0].0 (heads, 2), layers.0.query.weight[0].1 (head_dim, 3)" in caught.value.allowed


def test_a_glob_leaves_inputs_and_outputs_alone_unless_it_means_nothing_else() -> None:
    head = axis("head.weight[0]", 3, "output")
    assert find("**.weight[0]", [*AXES, head], NUMBERS, MODULES) == (STREAM, *FFN)
    assert find("head.*[0]", [*AXES, head], NUMBERS, MODULES) == (head,)
    assert find("head.weight[0]", [*AXES, head], NUMBERS, MODULES) == (head,)


def test_an_attribute_that_is_a_multiple_of_an_axis_is_refused() -> None:
    """out_features of both halves of a gate: 16 of it would be 8 units, so an int could not be meant."""
    half = axis("up.weight[0].0", 4, "hidden")
    both = Number("up.out_features", None, 8, (Concat((Leaf(half.name), Leaf(half.name))),), False)
    with pytest.raises(NameLookupError, match="write the axis: 'out_features' is made of it and more"):
        find("out_features", [half], [both], {})
