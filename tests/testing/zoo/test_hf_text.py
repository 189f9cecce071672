"""Language models of transformers: their axes, written by hand."""

from __future__ import annotations

import pytest

from tests.testing.zoo.layers import Layouts, check_entry, linear, norm

pytestmark = pytest.mark.slow

UNREAD = "rotary_emb.original_inv_freq"
"""A second copy of the frequencies of rotary positions, which only longer texts read."""


def _gain(name: str) -> Layouts:
    return {f"{name}.weight": "m:gain"}


def _matrices(out: dict[str, tuple[str, str]], prefix: str) -> Layouts:
    """Linear layers without biases."""
    found: Layouts = {}
    for name, (written, read) in out.items():
        found |= linear(f"{prefix}.{name}", written, read, bias=False)
    return found


def _conv1d(name: str, out: str, read: str) -> Layouts:
    """GPT-2's linear layer: `'read out'`."""
    return {f"{name}.weight": f"{read}:consumes {out}:produces", f"{name}.bias": f"{out}:produces"}


def _gpt2() -> Layouts:
    found = {
        "transformer.wte.weight": "entries:produces m:produces",
        "transformer.wpe.weight": "longest:produces m:produces",
    }
    for i in (0, 1):
        block = f"transformer.h.{i}"
        found |= {
            **norm(f"{block}.ln_1", "m"),
            **_conv1d(f"{block}.attn.c_attn", f"[(h{i} k{i})|(h{i} k{i})|(h{i} v{i})]", "m"),
            **_conv1d(f"{block}.attn.c_proj", "m", f"(h{i} v{i})"),
            **norm(f"{block}.ln_2", "m"),
            **_conv1d(f"{block}.mlp.c_fc", f"f{i}", "m"),
            **_conv1d(f"{block}.mlp.c_proj", "m", f"f{i}"),
        }
    # the head is the embedding: it reads what this norm gives
    return found | {"transformer.ln_f.weight": "m:readout", "transformer.ln_f.bias": "m:consumes"}


def _gpt_neox() -> Layouts:
    found = {
        "gpt_neox.embed_in.weight": "entries:produces m:produces",
        "gpt_neox.rotary_emb.inv_freq": "e:gain",
        f"gpt_neox.{UNREAD}": "unread",
        **norm("gpt_neox.final_layer_norm", "m"),
        **linear("lm_head", "out", "m", bias=False),
    }
    for i in (0, 1):
        block = f"gpt_neox.layers.{i}"
        found |= {
            **norm(f"{block}.input_layernorm", "m"),
            **norm(f"{block}.post_attention_layernorm", "m"),
            **linear(f"{block}.attention.query_key_value", f"(h{i} [e|e|p{i}|e|e|p{i}|v{i}])", "m"),
            **linear(f"{block}.attention.dense", "m", f"(h{i} v{i})"),
            **linear(f"{block}.mlp.dense_h_to_4h", f"f{i}", "m"),
            **linear(f"{block}.mlp.dense_4h_to_h", "m", f"f{i}"),
        }
    return found


def _bert() -> Layouts:
    embeddings = "bert.embeddings"
    found = {
        f"{embeddings}.word_embeddings.weight": "entries:produces m:produces",
        f"{embeddings}.position_embeddings.weight": "longest:produces m:produces",
        f"{embeddings}.token_type_embeddings.weight": "types:produces m:produces",
        **norm(f"{embeddings}.LayerNorm", "m"),
        # the head is the embedding, so the stream goes on to it
        **linear("cls.predictions.transform.dense", "m", "m"),
        "cls.predictions.transform.LayerNorm.weight": "m:readout",
        "cls.predictions.transform.LayerNorm.bias": "m:consumes",
        "cls.predictions.bias": "entries:produces",
        f"{embeddings}.position_ids": "1 [time|later]",
        f"{embeddings}.token_type_ids": "1 later2",
    }
    for i in (0, 1):
        layer = f"bert.encoder.layer.{i}"
        found |= {
            **linear(f"{layer}.attention.self.query", f"(h{i} k{i})", "m"),
            **linear(f"{layer}.attention.self.key", f"(h{i} k{i})", "m"),
            **linear(f"{layer}.attention.self.value", f"(h{i} v{i})", "m"),
            **linear(f"{layer}.attention.output.dense", "m", f"(h{i} v{i})"),
            **norm(f"{layer}.attention.output.LayerNorm", "m"),
            **linear(f"{layer}.intermediate.dense", f"f{i}", "m"),
            **linear(f"{layer}.output.dense", "m", f"f{i}"),
            **norm(f"{layer}.output.LayerNorm", "m"),
        }
    return found


def _decoder(layers: list[Layouts], tied: bool = False) -> Layouts:
    """Embedding, layers, a final RMS norm, a head."""
    found = {
        "model.embed_tokens.weight": "entries:produces m:produces",
        "model.rotary_emb.inv_freq": "e:gain",
        f"model.{UNREAD}": "unread",
        "model.norm.weight": "m:readout" if tied else "m:gain",
        **({} if tied else linear("lm_head", "out", "m", bias=False)),
    }
    for layer in layers:
        found |= layer
    return found


def _attention(i: int) -> Layouts:
    """Query heads in groups, one for each key head; halves of heads are rotated."""
    projections = {
        "q_proj": (f"(c{i} r{i} [e|e])", "m"),
        "k_proj": (f"(c{i} [e|e])", "m"),
        "v_proj": (f"(c{i} v{i})", "m"),
        "o_proj": ("m", f"(c{i} r{i} v{i})"),
    }
    return _matrices(projections, f"model.layers.{i}.self_attn")


def _gated(i: int) -> Layouts:
    units = {"gate_proj": (f"f{i}", "m"), "up_proj": (f"f{i}", "m"), "down_proj": ("m", f"f{i}")}
    return _matrices(units, f"model.layers.{i}.mlp")


def _norms(i: int, *more: str) -> Layouts:
    found: Layouts = {}
    for name in ("input_layernorm", "post_attention_layernorm", *more):
        found |= _gain(f"model.layers.{i}.{name}")
    return found


def _llama() -> Layouts:
    return _decoder([_attention(i) | _gated(i) | _norms(i) for i in (0, 1)])


def _qwen3() -> Layouts:
    normed = {f"model.layers.{i}.self_attn.{name}_norm.weight": "[e|e]:gain" for i in (0, 1) for name in ("q", "k")}
    return _llama() | normed


def _gemma2() -> Layouts:
    around = ("pre_feedforward_layernorm", "post_feedforward_layernorm")
    layers = [_attention(i) | _gated(i) | _norms(i, *around) for i in (0, 1)]
    return _decoder(layers, tied=True)


def _phi3() -> Layouts:
    layers = []
    for i in (0, 1):
        matrices = {
            "self_attn.qkv_proj": (f"[(c{i} r{i} [e|e])|(c{i} [e|e])|(c{i} v{i})]", "m"),
            "self_attn.o_proj": ("m", f"(c{i} r{i} v{i})"),
            "mlp.gate_up_proj": (f"[f{i}|f{i}]", "m"),
            "mlp.down_proj": ("m", f"f{i}"),
        }
        layers.append(_matrices(matrices, f"model.layers.{i}") | _norms(i))
    return _decoder(layers)


def _mixtral() -> Layouts:
    layers = []
    for i in (0, 1):
        experts = {
            f"model.layers.{i}.mlp.gate.weight": f"x{i}:produces m:consumes",
            # experts are picked by their number, one by one: nothing shows that they are those of the gate
            f"model.layers.{i}.mlp.experts.gate_up_proj": f"up{i} [f{i}|f{i}]:produces m:consumes",
            f"model.layers.{i}.mlp.experts.down_proj": f"down{i} m:produces f{i}:consumes",
        }
        layers.append(_attention(i) | experts | _norms(i))
    return _decoder(layers)


def _deepseek() -> Layouts:
    layers = []
    for i in (0, 1):
        queries, latent = f"(h{i} [n{i}|(e pair{i})])", f"[c{i}|(e both{i})]"  # neighbours are rotated
        matrices = {
            "self_attn.q_a_proj": (f"q{i}", "m"),
            "self_attn.q_b_proj": (queries, f"q{i}"),
            "self_attn.kv_a_proj_with_mqa": (latent, "m"),
            "self_attn.kv_b_proj": (f"(h{i} [n{i}|v{i}])", f"c{i}"),
            "self_attn.o_proj": ("m", f"(h{i} v{i})"),
        }
        inner = {
            f"model.layers.{i}.self_attn.q_a_layernorm.weight": f"q{i}:gain",
            f"model.layers.{i}.self_attn.kv_a_layernorm.weight": f"c{i}:gain",
        }
        layers.append(_matrices(matrices, f"model.layers.{i}") | inner | _norms(i))
    mlp = "model.layers.1.mlp"
    shared = {"gate_proj": ("shared", "m"), "up_proj": ("shared", "m"), "down_proj": ("m", "shared")}
    experts = {
        f"{mlp}.gate.weight": "(groups x):produces m:consumes",
        f"{mlp}.gate.e_score_correction_bias": "(groups x):produces",
        f"{mlp}.experts.gate_up_proj": "up [f|f]:produces m:consumes",
        f"{mlp}.experts.down_proj": "down m:produces f:consumes",
        **_matrices(shared, f"{mlp}.shared_experts"),
    }
    return _decoder([*layers, _gated(0), experts])


def _falcon() -> Layouts:
    found = {
        "transformer.word_embeddings.weight": "entries:produces m:produces",
        "transformer.rotary_emb.inv_freq": "e:gain",
        f"transformer.{UNREAD}": "unread",
        "transformer.ln_f.weight": "m:readout",
        "transformer.ln_f.bias": "m:consumes",
    }
    for i in (0, 1):
        block = f"transformer.h.{i}"
        # behind the heads of the queries, that of the keys and that of the values
        matrices = {
            "self_attention.query_key_value": (f"([h{i}|key{i}|value{i}] [e|e])", "m"),
            "self_attention.dense": ("m", f"(h{i} [e|e])"),
            "mlp.dense_h_to_4h": (f"f{i}", "m"),
            "mlp.dense_4h_to_h": ("m", f"f{i}"),
        }
        found |= _matrices(matrices, block) | norm(f"{block}.input_layernorm", "m")
    return found


def _t5() -> Layouts:
    found = {
        "shared.weight": "entries:produces m:produces",  # the head too
        "encoder.final_layer_norm.weight": "m:gain",
        "decoder.final_layer_norm.weight": "m:readout",
    }
    for part in ("encoder", "decoder"):
        # the table of relative positions, and one of zeros for reading the encoder, tie the heads of all layers
        bias = f"{part}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        found |= {bias: f"{part}.buckets {part}.h:produces"}
        for i in (0, 1):
            attentions = [("SelfAttention", f"{part}.h"), ("EncDecAttention", "cross.h")]
            layers = f"{part}.block.{i}.layer"
            read = attentions[: 2 if part == "decoder" else 1]
            for n, (name, heads) in enumerate(read):
                queries, values = f"({heads} {part}.{name}.k{i})", f"({heads} {part}.{name}.v{i})"
                matrices = {"q": (queries, "m"), "k": (queries, "m"), "v": (values, "m"), "o": ("m", values)}
                found |= _matrices(matrices, f"{layers}.{n}.{name}") | _gain(f"{layers}.{n}.layer_norm")
            last = f"{layers}.{len(read)}"
            units = f"{part}.f{i}"
            matrices = {"wi_0": (units, "m"), "wi_1": (units, "m"), "wo": ("m", units)}
            found |= _matrices(matrices, f"{last}.DenseReluDense") | _gain(f"{last}.layer_norm")
    return found


def _mamba() -> Layouts:
    found = {"backbone.embeddings.weight": "entries:produces m:produces", "backbone.norm_f.weight": "m:readout"}
    for i in (0, 1):
        mixer = f"backbone.layers.{i}.mixer"
        found |= {
            f"backbone.layers.{i}.norm.weight": "m:gain",
            f"{mixer}.A_log": f"i{i}:gain s{i}:produces",
            f"{mixer}.D": f"i{i}:gain",
            f"{mixer}.conv1d.weight": f"i{i}:gain 1 kernel{i}",
            f"{mixer}.conv1d.bias": f"i{i}:produces",
            **linear(f"{mixer}.in_proj", f"[i{i}|i{i}]", "m", bias=False),
            **linear(f"{mixer}.x_proj", f"[r{i}|s{i}|s{i}]", f"i{i}", bias=False),
            **linear(f"{mixer}.dt_proj", f"i{i}", f"r{i}"),
            **linear(f"{mixer}.out_proj", "m", f"i{i}", bias=False),
        }
    return found


WRITTEN = {
    "GPT-2": (_gpt2(), ()),
    "GPT-NeoX": (_gpt_neox(), (f"gpt_neox.{UNREAD}",)),
    "BERT": (_bert(), ()),
    "Llama": (_llama(), (f"model.{UNREAD}",)),
    "Qwen3": (_qwen3(), (f"model.{UNREAD}",)),
    "Gemma 2": (_gemma2(), (f"model.{UNREAD}",)),
    "Phi-3": (_phi3(), (f"model.{UNREAD}",)),
    "Falcon": (_falcon(), (f"transformer.{UNREAD}",)),
    "Mixtral": (_mixtral(), (f"model.{UNREAD}",)),
    "T5": (_t5(), ()),
    "Mamba": (_mamba(), ()),
    "DeepSeek-V3": (_deepseek(), (f"model.{UNREAD}",)),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_axes_are_those_written_by_hand(name: str) -> None:
    written, unreached = WRITTEN[name]
    check_entry(name, written, unreached)
