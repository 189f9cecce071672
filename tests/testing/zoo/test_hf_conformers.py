"""Conformers of transformers: their axes, written by hand."""

from __future__ import annotations

import pytest

from tests.testing.zoo.layers import (
    Layouts,
    batch_norm,
    check_entry,
    conv,
    depthwise,
    linear,
    norm,
    projections,
    wav2vec2_front,
)  # fmt: skip

pytestmark = pytest.mark.slow

PLACES, POINT = (3,), (1,)


def _feed_forward(name: str, first: str, second: str, m: str, bias: bool = True) -> Layouts:
    hidden = f"{name}.hidden"
    return linear(f"{name}.{first}", hidden, m, bias) | linear(f"{name}.{second}", m, hidden, bias)


def _relative(name: str, position: str, out: str, bias: tuple[str, str] = ("pos_bias_u", "pos_bias_v")) -> Layouts:
    return {
        **{f"{name}.{b}": f"{name}:produces {name}.k:produces" for b in bias},
        f"{name}.{out}.weight": f"({name} {name}.k):produces {position}:consumes",
    }


def _convolution(name: str, m: str, normed: Layouts, bias: bool) -> Layouts:
    """Gated pointwise, depthwise and pointwise convolution over `{name}.c`, with a norm of its channels."""
    c = f"{name}.c"
    return {
        **conv(f"{name}.pointwise_conv1", f"[{c}|{c}]", m, POINT, bias),
        **depthwise(f"{name}.depthwise_conv", c, PLACES, bias),
        **normed,
        **conv(f"{name}.pointwise_conv2", m, c, POINT, bias),
    }


# ------------------------------------------------------------------------------------- the Wav2Vec2 family


UNUSED_CONVOLUTION = {
    "encoder.pos_conv_embed.conv.bias": "unused1",
    "encoder.pos_conv_embed.conv.parametrizations.weight.original0": "1 1 unused2",
    "encoder.pos_conv_embed.conv.parametrizations.weight.original1": "unused3 unused4 unused5",
}


def _conformer_layer(name: str, m: str, positions: Layouts, normed: Layouts) -> Layouts:
    """A layer of Wav2Vec2-Conformer, Wav2Vec2-BERT and SeamlessM4T."""
    attention = f"{name}.self_attn"
    return {
        **norm(f"{name}.ffn1_layer_norm", m),
        **_feed_forward(f"{name}.ffn1", "intermediate_dense", "output_dense", m),
        **norm(f"{name}.self_attn_layer_norm", m),
        **projections(f"{attention}.linear_{{}}", attention, m),
        **linear(f"{attention}.linear_out", m, f"({attention} {attention}.v)"),
        **positions,
        **norm(f"{name}.conv_module.layer_norm", m),
        **_convolution(f"{name}.conv_module", m, normed, bias=False),
        **norm(f"{name}.ffn2_layer_norm", m),
        **_feed_forward(f"{name}.ffn2", "intermediate_dense", "output_dense", m),
        **norm(f"{name}.final_layer_norm", m),
    }


def _batch_normed(layer: str) -> Layouts:
    return batch_norm(f"{layer}.conv_module.batch_norm", f"{layer}.conv_module.c")


def _layer_normed(layer: str) -> Layouts:
    return norm(f"{layer}.conv_module.depthwise_layer_norm", f"{layer}.conv_module.c")


def _table(name: str) -> Layouts:
    """A table of sinusoids, cut to the length of the sequence; its width is no axis of the stream."""
    return {name: "1 [before|here|after] position:produces"}


def _wav2vec2_conformer(m: str, relative: bool) -> Layouts:
    found = wav2vec2_front(m) | UNUSED_CONVOLUTION
    for layer in ("encoder.layers.0", "encoder.layers.1"):
        positions = _relative(f"{layer}.self_attn", "position", "linear_pos") if relative else {}
        found |= _conformer_layer(layer, m, positions, _batch_normed(layer))
    return found | (
        _table("encoder.embed_positions.pe") if relative else {"encoder.embed_positions.inv_freq": "r:gain"}
    )


def _distances(layer: str) -> Layouts:
    embedding = f"{layer}.self_attn.distance_embedding"
    return {f"{embedding}.weight": f"{embedding} {layer}.self_attn.k:produces"}


def _wav2vec2_bert() -> Layouts:
    found = {"masked_spec_embed": "unused", **_projected_features()}
    for layer in ("encoder.layers.0", "encoder.layers.1"):
        found |= _conformer_layer(layer, "m", _distances(layer), _layer_normed(layer))
    return found


def _projected_features() -> Layouts:
    return norm("feature_projection.layer_norm", "in") | linear("feature_projection.projection", "m", "in")


# ------------------------------------------------------------------------------------- SeamlessM4T


def _seamless(layer_of: dict[str, Layouts], positions: Layouts) -> Layouts:
    adapter, n = "adapter.layers.0", "n"
    attention = f"{adapter}.self_attn"
    found = {**_projected_features(), **positions}
    for layer, parts in layer_of.items():
        found |= _conformer_layer(layer, "m", parts, {})
    return {
        **found,
        **norm("encoder.layer_norm", "m"),
        **_feed_forward("intermediate_ffn", "intermediate_dense", "output_dense", "m"),
        # gated convolutions: what leaves the adapter is another stream
        **norm(f"{adapter}.residual_layer_norm", "m"),
        **conv(f"{adapter}.residual_conv", f"[{n}|{n}]", "m", PLACES),
        **norm(f"{adapter}.self_attn_layer_norm", "m"),
        **conv(f"{adapter}.self_attn_conv", "[gated|gated]", "m", PLACES),
        **projections(f"{attention}.linear_{{}}", attention, "gated"),
        **linear(f"{attention}.linear_out", n, f"({attention} {attention}.v)"),
        **norm(f"{adapter}.ffn_layer_norm", n),
        **_feed_forward(f"{adapter}.ffn", "intermediate_dense", "output_dense", n),
        **norm("inner_layer_norm", n),
    }


LAYERS = ("encoder.layers.0", "encoder.layers.1")
SEAMLESS = _seamless(
    {at: _relative(f"{at}.self_attn", "position", "linear_pos") | _batch_normed(at) for at in LAYERS},
    _table("encoder.embed_positions.pe"),
)
SEAMLESS_V2 = _seamless({at: _distances(at) | _layer_normed(at) for at in LAYERS}, {})


# ------------------------------------------------------------------------------------- other Conformers


def _fast_speech2(concatenated: bool) -> Layouts:
    found = {"encoder.embed.weight": "entries:produces m:produces", **_table("encoder.pos_enc.pos_enc")}
    for layer in ("encoder.conformer_layers.0", "encoder.conformer_layers.1"):
        attention = f"{layer}.self_attn"
        mixed = f"{layer}.mixed" if concatenated else "m"
        for half in ("feed_forward", "feed_forward_macaron"):
            hidden = f"{layer}.{half}.hidden"
            found |= conv(f"{layer}.{half}.conv1", hidden, "m", PLACES)
            found |= conv(f"{layer}.{half}.conv2", "m", hidden, PLACES)
        for which in ("ff_macaron", "conv", "final", "ff", "self_attn"):
            found |= norm(f"{layer}.{which}_layer_norm", "m")
        found |= {
            **projections(f"{attention}.linear_{{}}", attention, "m"),
            **linear(f"{attention}.linear_out", mixed, f"({attention} {attention}.v)"),
            **_relative(attention, "position", "linear_pos"),
            **(linear(f"{layer}.concat_linear", "m", f"[m|{mixed}]") if concatenated else {}),
            **_convolution(
                f"{layer}.conv_module", "m", batch_norm(f"{layer}.conv_module.norm", f"{layer}.conv_module.c"), True
            ),
        }
    return found


def _blocks(layer: str, bias: bool) -> Layouts:
    """What the layers of Parakeet and Lasr share."""
    return {
        **_feed_forward(f"{layer}.feed_forward1", "linear1", "linear2", "m", bias),
        **_feed_forward(f"{layer}.feed_forward2", "linear1", "linear2", "m", bias),
        **_convolution(f"{layer}.conv", "m", batch_norm(f"{layer}.conv.norm", f"{layer}.conv.c"), bias),
    }


NORMS = ("norm_feed_forward1", "norm_self_att", "norm_conv", "norm_feed_forward2", "norm_out")


def _parakeet() -> Layouts:
    found = {
        **conv("subsampling.layers.0", "a", "image"),
        **depthwise("subsampling.layers.2", "a"),
        **conv("subsampling.layers.3", "b", "a", (1, 1)),
        **linear("subsampling.linear", "m", "(b frequency)"),
        "encode_positions.inv_freq": "wave:produces",
    }
    for layer in ("layers.0", "layers.1"):
        attention = f"{layer}.self_attn"
        found |= {
            **_blocks(layer, bias=True),
            **projections(f"{attention}.{{}}_proj", attention, "m"),
            **linear(f"{attention}.o_proj", "m", f"({attention} {attention}.v)"),
            # sine and cosine of each frequency, one beside the other
            **_relative(attention, "(wave pair)", "relative_k_proj", ("bias_u", "bias_v")),
        }
        for name in NORMS:
            found |= norm(f"{layer}.{name}", "m")
    return found


def _lasr() -> Layouts:
    found = {
        **linear("subsampler.dense_0", "a", "in"),
        **conv("subsampler.conv_0", "b", "a", PLACES),
        **conv("subsampler.conv_1", "c", "b", PLACES),
        **linear("subsampler.dense_1", "m", "c"),
        "out_norm.weight": "m:gain",
        "rotary_emb.inv_freq": "r:gain",
        "rotary_emb.original_inv_freq": "unused",
    }
    for layer in ("layers.0", "layers.1"):
        heads, values = f"{layer}.h", f"({layer}.h {layer}.v)"
        found |= {
            **_blocks(layer, bias=False),
            **linear(f"{layer}.self_attn.q_proj", f"({heads} [r|r])", "m", bias=False),
            **linear(f"{layer}.self_attn.k_proj", f"({heads} [r|r])", "m", bias=False),
            **linear(f"{layer}.self_attn.v_proj", values, "m", bias=False),
            **linear(f"{layer}.self_attn.o_proj", "m", values, bias=False),
            **{f"{layer}.{name}.weight": "m:gain" for name in NORMS},
        }
    return found


def _granite() -> Layouts:
    found = {
        **linear("input_linear", "m", "in"),
        **linear("out", "classes", "m"),
        **linear("out_mid", "m", "classes"),
        "attention_dists": "block block",
    }
    for layer in ("layers.0", "layers.1"):
        h, k, v, c = (f"{layer}.{axis}" for axis in "hkvc")
        found |= {
            **norm(f"{layer}.attn.pre_norm", "m"),
            **linear(f"{layer}.attn.to_q", f"({h} {k})", "m", bias=False),
            **linear(f"{layer}.attn.to_kv", f"[({h} {k})|({h} {v})]", "m", bias=False),
            **linear(f"{layer}.attn.to_out", "m", f"({h} {v})"),
            f"{layer}.attn.rel_pos_emb.weight": f"{layer}.distances {k}:produces",
            **norm(f"{layer}.conv.norm", "m"),
            **conv(f"{layer}.conv.up_conv", f"[{c}|{c}]", "m", POINT),
            **depthwise(f"{layer}.conv.depth_conv.conv", c, PLACES, bias=False),
            **batch_norm(f"{layer}.conv.batch_norm", c),
            **conv(f"{layer}.conv.down_conv", "m", c, POINT),
            **norm(f"{layer}.post_norm", "m"),
        }
        for half in ("ff1", "ff2"):
            found |= norm(f"{layer}.{half}.pre_norm", "m")
            found |= _feed_forward(f"{layer}.{half}", "up_proj", "down_proj", "m")
    return found


UNUSED = ("masked_spec_embed", *UNUSED_CONVOLUTION)
WRITTEN = {
    "Wav2Vec2-Conformer, relative": (_wav2vec2_conformer("m", relative=True), UNUSED),
    "Wav2Vec2-Conformer, rotary": (_wav2vec2_conformer("(h [r|r])", relative=False), UNUSED),
    "Wav2Vec2-BERT": (_wav2vec2_bert(), ("masked_spec_embed",)),
    "SeamlessM4T speech encoder": (SEAMLESS, ()),
    "SeamlessM4T v2 speech encoder": (SEAMLESS_V2, ()),
    "FastSpeech2Conformer encoder": (_fast_speech2(concatenated=False), ()),
    "FastSpeech2Conformer encoder, concatenated": (_fast_speech2(concatenated=True), ()),
    "Parakeet encoder": (_parakeet(), ()),
    "Lasr encoder": (_lasr(), ("rotary_emb.original_inv_freq",)),
    "Granite speech encoder": (_granite(), ()),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_axes_are_those_written_by_hand(name: str) -> None:
    check_entry(name, *WRITTEN[name])
