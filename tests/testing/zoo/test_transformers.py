"""Transformers out of torch's own layers: their axes, written by hand."""

from __future__ import annotations

import pytest

from growkit.discovery.discover import discover
from growkit.testing.zoo import ZOO
from tests.testing.zoo.layers import Layouts, check_entry, families, linear, norm, packed_attention


def _feed_forward(name: str) -> Layouts:
    return linear(f"{name}.linear1", f"{name}.hidden", "m") | linear(f"{name}.linear2", "m", f"{name}.hidden")


def _encoder_layer(name: str) -> Layouts:
    norms = norm(f"{name}.norm1", "m") | norm(f"{name}.norm2", "m")
    return packed_attention(f"{name}.self_attn", "m") | _feed_forward(name) | norms


def _decoder_layer(name: str) -> Layouts:
    crossed = packed_attention(f"{name}.multihead_attn", "m")
    return _encoder_layer(name) | crossed | norm(f"{name}.norm3", "m")


def _encoder(final: Layouts) -> Layouts:
    return {
        "embedding.weight": "entries:produces m:produces",
        "position": "1 time:produces m:produces",
        **_encoder_layer("encoder.layers.0"),
        **_encoder_layer("encoder.layers.1"),
        **final,
        **linear("leave", "out", "m"),
    }


WRITTEN = families(
    (
        "MultiheadAttention, one tensor",
        linear("enter", "m", "in") | packed_attention("attention", "m") | linear("leave", "out", "m"),
    ),
    (
        "MultiheadAttention, two tensors",
        {
            **linear("enter", "m", "in"),
            **linear("enter_other", "m", "in2"),
            **packed_attention("attention", "m"),
            **linear("leave", "out", "m"),
        },
    ),
    (
        "MultiheadAttention, kdim and vdim",
        {
            **linear("enter", "m", "in"),
            **linear("enter_other", "n", "in2"),
            "attention.q_proj_weight": "(h k):produces m:consumes",
            "attention.k_proj_weight": "(h k):produces n:consumes",
            "attention.v_proj_weight": "(h v):produces n:consumes",
            "attention.in_proj_bias": "[(h k)|(h k)|(h v)]:produces",
            **linear("attention.out_proj", "m", "(h v)"),
            **linear("leave", "out", "m"),
        },
    ),
    ("TransformerEncoder", _encoder({})),
    ("TransformerEncoder, pre-norm", _encoder(norm("encoder.norm", "m"))),
    (
        "encoder and decoder",
        {
            **linear("source", "m", "in"),
            "target.weight": "entries:produces m:produces",
            **_encoder_layer("encoder.layers.0"),
            **_decoder_layer("decoder.layers.0"),
            **_decoder_layer("decoder.layers.1"),
            **norm("decoder.norm", "m"),
            **linear("leave", "out", "m"),
        },
    ),
    (
        "Transformer",
        {
            "source.weight": "entries:produces m:produces",
            "target.weight": "entries2:produces m:produces",
            **_encoder_layer("transformer.encoder.layers.0"),
            **norm("transformer.encoder.norm", "m"),
            **_decoder_layer("transformer.decoder.layers.0"),
            **norm("transformer.decoder.norm", "m"),
            **linear("leave", "out", "m"),
        },
    ),
)


@pytest.mark.parametrize(("name", "written"), WRITTEN)
def test_axes_are_those_written_by_hand(name: str, written: Layouts) -> None:
    check_entry(name, written)


def test_numbers_that_attention_keeps_follow() -> None:
    model, inputs = ZOO["MultiheadAttention, kdim and vdim"].make()
    table = discover(model, inputs)
    kept = {n.path.removeprefix("attention."): n.value for n in table.numbers if n.path.startswith("attention.")}
    expected = {"embed_dim": 6, "num_heads": 2, "head_dim": 3, "kdim": 5, "vdim": 5}
    assert expected.items() <= kept.items()
    assert table["attention.kdim"] == table["enter_other.weight[0]"]


def test_numbers_that_a_whole_transformer_keeps_follow() -> None:
    model, inputs = ZOO["Transformer"].make()
    table = discover(model, inputs)
    assert table["transformer.d_model"] == table["source.weight[1]"]
    assert table["transformer.nhead"] == table["transformer.encoder.layers.0.self_attn.num_heads"]


def test_the_stream_is_heads_times_head_dim() -> None:
    """torch's attention takes its width from the stream: the three inner widths are equal to it."""
    model, inputs = ZOO["MultiheadAttention, kdim and vdim"].make()
    (equality,) = discover(model, inputs).equalities
    assert len(equality.sizes) == 3  # stream, heads times query width, heads times value width
