"""Declared layouts against a list written by hand, and against the tensors."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from growkit.axes.expressions import size
from growkit.axes.layouts import Layout
from growkit.errors import LayoutError
from growkit.nn import ConformerClassifier, ConformerEncoder, declared_layouts, declared_table

STREAM, INPUT = "input_projection.weight[0]", "input_projection.weight[1]"
HIDDEN1, HIDDEN2 = "layers.0.feed_forward1.linear1.weight[0]", "layers.0.feed_forward2.linear1.weight[0]"
HEADS, HEAD_DIM = "layers.0.attention.query.weight[0].0", "layers.0.attention.query.weight[0].1"
VALUE_DIM, POSITION = "layers.0.attention.value.weight[0].1", "layers.0.attention.position.weight[1]"
KERNEL = "layers.0.convolution.depthwise.weight[2]"
CHANNELS = "layers.0.convolution.pointwise1.weight[0].0"
NORM = {"weight": f"{STREAM}:gain", "bias": f"{STREAM}:bias"}
QK, V, GLU = f"({HEADS} {HEAD_DIM})", f"({HEADS} {VALUE_DIM})", f"[{CHANNELS}|{CHANNELS}]"

BY_HAND = {
    "input_projection.weight": f"{STREAM}:produces {INPUT}:consumes",
    "input_projection.bias": f"{STREAM}:produces",
    **{
        f"layers.0.{place}.{name}": text
        for place in ("feed_forward1.norm", "attention.norm", "convolution.norm", "feed_forward2.norm", "final_norm")
        for name, text in NORM.items()
    },
    "layers.0.feed_forward1.linear1.weight": f"{HIDDEN1}:produces {STREAM}:consumes",
    "layers.0.feed_forward1.linear1.bias": f"{HIDDEN1}:produces",
    "layers.0.feed_forward1.linear2.weight": f"{STREAM}:produces {HIDDEN1}:consumes",
    "layers.0.feed_forward1.linear2.bias": f"{STREAM}:produces",
    "layers.0.attention.query.weight": f"{QK}:produces {STREAM}:consumes",
    "layers.0.attention.query.bias": f"{QK}:produces",
    "layers.0.attention.key.weight": f"{QK}:produces {STREAM}:consumes",
    "layers.0.attention.key.bias": f"{QK}:produces",
    "layers.0.attention.pos_bias_u": f"{HEADS}:produces {HEAD_DIM}:produces",
    "layers.0.attention.pos_bias_v": f"{HEADS}:produces {HEAD_DIM}:produces",
    "layers.0.attention.value.weight": f"{V}:produces {STREAM}:consumes",
    "layers.0.attention.value.bias": f"{V}:produces",
    "layers.0.attention.position.weight": f"{QK}:produces {POSITION}:consumes",
    "layers.0.attention.out.weight": f"{STREAM}:produces {V}:consumes",
    "layers.0.attention.out.bias": f"{STREAM}:produces",
    "layers.0.convolution.pointwise1.weight": f"{GLU}:produces {STREAM}:consumes",
    "layers.0.convolution.pointwise1.bias": f"{GLU}:produces",
    "layers.0.convolution.depthwise.weight": f"{CHANNELS}:gain 1 {KERNEL}",
    "layers.0.convolution.depthwise.bias": f"{CHANNELS}:produces",
    "layers.0.convolution.batch_norm.weight": f"{CHANNELS}:gain",
    "layers.0.convolution.batch_norm.bias": f"{CHANNELS}:bias",
    "layers.0.convolution.batch_norm.running_mean": f"{CHANNELS}:mean",
    "layers.0.convolution.batch_norm.running_var": f"{CHANNELS}:variance",
    "layers.0.convolution.batch_norm.num_batches_tracked": "",
    "layers.0.convolution.pointwise2.weight": f"{STREAM}:produces {CHANNELS}:consumes",
    "layers.0.convolution.pointwise2.bias": f"{STREAM}:produces",
    "layers.0.feed_forward2.linear1.weight": f"{HIDDEN2}:produces {STREAM}:consumes",
    "layers.0.feed_forward2.linear1.bias": f"{HIDDEN2}:produces",
    "layers.0.feed_forward2.linear2.weight": f"{STREAM}:produces {HIDDEN2}:consumes",
    "layers.0.feed_forward2.linear2.bias": f"{STREAM}:produces",
}


def make(num_layers: int = 1) -> ConformerEncoder:
    return ConformerEncoder(12, 4, 6, 2, num_layers, 3, head_dim=5, position_dim=8, conv_channels=10)


def test_layouts_are_those_written_by_hand() -> None:
    assert declared_layouts(make()) == BY_HAND


def test_axes_of_the_classifier() -> None:
    table = declared_table(ConformerClassifier(make(), 9))
    found = {axis.name.removeprefix("encoder."): (axis.size, axis.kind) for axis in table}
    assert found == {
        STREAM: (4, "stream"),
        INPUT: (12, "input"),
        HIDDEN1: (6, "hidden"),
        HEADS: (2, "heads"),
        HEAD_DIM: (5, "head_dim"),
        VALUE_DIM: (5, "head_dim"),
        POSITION: (8, "fixed"),
        CHANNELS: (10, "channels"),
        KERNEL: (3, "fixed"),
        HIDDEN2: (6, "hidden"),
        "output.weight[0]": (9, "output"),
    }
    passages = {axis.name.removeprefix("encoder."): {p.kind for p in axis.passages} for axis in table}
    assert passages == {
        STREAM: {"layer_norm", "residual"},
        INPUT: {"input"},
        HIDDEN1: {"pointwise:silu"},
        HEADS: {"per_head", "residual", "pointwise:masked_fill", "pointwise:softmax"},
        HEAD_DIM: {"contracted_activations", "size_as_number"},
        VALUE_DIM: set(),
        POSITION: {"size_as_number"},
        KERNEL: set(),
        CHANNELS: {"gate", "pointwise:sigmoid", "depthwise_conv", "batch_norm", "pointwise:silu"},
        HIDDEN2: {"pointwise:silu"},
        "output.weight[0]": {"output"},
    }


def test_what_a_computed_table_or_a_kernel_fixes_is_locked() -> None:
    locked = {axis.name: axis.locks[0].reason for axis in declared_table(make()) if axis.locked}
    assert locked == {
        POSITION: "it is contracted with a table that the forward pass makes",
        KERNEL: "it counts the places of a convolution kernel",
    }


def test_the_stream_of_a_bare_encoder_is_an_output() -> None:
    stream = declared_table(make()).by_name[STREAM]
    assert {passage.kind for passage in stream.passages} == {"layer_norm", "residual", "output"}


def test_every_number_equals_its_sizes() -> None:
    model = ConformerClassifier(make(2), 9)
    table = declared_table(model)
    for number in table.numbers:
        owner, _, attribute = number.path.rpartition(".")
        value = getattr(model.get_submodule(owner), attribute)
        assert number.value == (value if number.index is None else value[number.index]), number.path
        assert [size(expression, table.sizes) for expression in number.sizes] == [number.value], number.path
    read = {number.path.rpartition(".")[2] for number in table.numbers if number.read}
    assert read == {"normalized_shape", "groups", "num_heads", "dim"}
    kept = {number.path.rpartition(".")[2] for number in table.numbers if not number.read}
    torchs = {"in_features", "out_features", "in_channels", "out_channels", "num_features"}
    assert kept == torchs | {"ffn_dim", "conv_channels", "model_dim"}


def test_a_size_grows_by_its_attribute() -> None:
    table = declared_table(ConformerClassifier(make(2), 9))
    hidden = "encoder.layers.{}.feed_forward{}.linear1.weight[0]"
    assert [axis.name for axis in table["ffn_dim"]] == [hidden.format(i, j) for i in (0, 1) for j in (1, 2)]
    assert [axis.kind for axis in table["num_heads"]] == ["heads"] * 2
    assert [axis.kind for axis in table["conv_channels"]] == ["channels"] * 2
    assert [axis.kind for axis in table["model_dim"]] == ["stream"]


def test_shapes_follow_from_the_layouts() -> None:
    model = make(2)
    table = declared_table(model)
    for name, tensor in model.state_dict().items():
        assert table.layouts[name].shape(table.sizes) == tuple(tensor.shape)
        assert Layout.parse(declared_layouts(model)[name]) == table.layouts[name]


def test_blocks_say_whether_a_norm_ends_them() -> None:
    model = make(2)
    model.layers[1].final_norm = nn.Identity()
    table = declared_table(model)
    assert [(b.container, b.index, b.axes, b.residual, b.tail) for b in table.blocks] == [
        ("layers", 0, (STREAM,), True, ("final_norm",)),
        ("layers", 1, (STREAM,), True, ()),
    ]
    assert "layers.1.final_norm.weight" not in table.layouts


def test_a_foreign_parameter_is_refused() -> None:
    model = make()
    model.extra = nn.Parameter(torch.zeros(3))
    with pytest.raises(LayoutError) as caught:
        declared_table(model)
    assert caught.value.given == "tensors without a declared layout: extra"
    assert "growkit.discover" in caught.value.next_step


def test_a_tensor_of_another_shape_is_refused() -> None:
    model = make()
    model.layers[0].feed_forward1.linear2 = nn.Linear(7, 4)
    with pytest.raises(LayoutError) as caught:
        declared_table(model)
    assert caught.value.given == "layers.0.feed_forward1.linear1.weight of shape (6, 4)"
    assert "(7, 4)" in caught.value.allowed
