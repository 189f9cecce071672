"""Speech models of transformers: their axes, written by hand."""

from __future__ import annotations

import pytest

from tests.testing.zoo.layers import Layouts, check_entry, conv, linear, norm, projections, wav2vec2_front

pytestmark = pytest.mark.slow

PLACES = (3,)


def _wav2vec2(bias: bool, every_norm: bool) -> Layouts:
    m, convolution = "(g m)", "encoder.pos_conv_embed.conv"
    found = {
        **wav2vec2_front(m, bias, every_norm),
        f"{convolution}.bias": f"{m}:produces",
        f"{convolution}.parametrizations.weight.original0": "1 1 place",
        f"{convolution}.parametrizations.weight.original1": "(g:gain m:produces) m:consumes place",
    }
    for layer in ("encoder.layers.0", "encoder.layers.1"):
        attention, hidden = f"{layer}.attention", f"{layer}.hidden"
        found |= {
            **projections(f"{attention}.{{}}_proj", attention, m),
            **linear(f"{attention}.out_proj", m, f"({attention} {attention}.v)"),
            **norm(f"{layer}.layer_norm", m),
            **linear(f"{layer}.feed_forward.intermediate_dense", hidden, m),
            **linear(f"{layer}.feed_forward.output_dense", m, hidden),
            **norm(f"{layer}.final_layer_norm", m),
        }
    return found


def _whisper_attention(name: str, m: str, read: str | None = None) -> Layouts:
    found = projections(f"{name}.{{}}_proj", name, m, read) | linear(f"{name}.out_proj", m, f"({name} {name}.v)")
    del found[f"{name}.k_proj.bias"]
    return found | norm(f"{name}_layer_norm", m)


def _whisper() -> Layouts:
    found = {
        **conv("model.encoder.conv1", "a", "in", PLACES),
        **conv("model.encoder.conv2", "m", "a", PLACES),
        "model.encoder.embed_positions.weight": "longest:produces m:produces",
        **norm("model.encoder.layer_norm", "m"),
        "model.decoder.embed_tokens.weight": "entries:produces n:produces",
        "model.decoder.embed_positions.weight": "longest2:produces n:produces",
        # the head is the embedding: it reads what this norm gives
        "model.decoder.layer_norm.weight": "n:readout",
        "model.decoder.layer_norm.bias": "n:consumes",
    }
    for side, m in (("encoder", "m"), ("decoder", "n")):
        for i in (0, 1):
            layer = f"model.{side}.layers.{i}"
            found |= {
                **_whisper_attention(f"{layer}.self_attn", m),
                **linear(f"{layer}.fc1", f"{layer}.hidden", m),
                **linear(f"{layer}.fc2", m, f"{layer}.hidden"),
                **norm(f"{layer}.final_layer_norm", m),
            }
            if side == "decoder":
                found |= _whisper_attention(f"{layer}.encoder_attn", m, "m")
    return found


WRITTEN = {
    "Wav2Vec2": (_wav2vec2(bias=False, every_norm=False), ("masked_spec_embed",)),
    "Wav2Vec2, pre-norm": (_wav2vec2(bias=True, every_norm=True), ("masked_spec_embed",)),
    "Whisper": (_whisper(), ()),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_axes_are_those_written_by_hand(name: str) -> None:
    check_entry(name, *WRITTEN[name])
