"""Models of transformers grow, and are built anew from their configs: same state, same outputs."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import growkit as gk
from growkit.growth.float64 import float64
from growkit.testing import randomise
from growkit.testing.zoo.entry import Entry
from growkit.testing.zoo.hf_conformers import ENTRIES as HF_CONFORMERS
from growkit.testing.zoo.hf_speech import waveform_options

transformers = pytest.importorskip("transformers")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

TEXT = {"vocab_size": 37, "max_position_embeddings": 23, "num_hidden_layers": 2}
GQA = {**TEXT, "hidden_size": 24, "num_attention_heads": 6, "num_key_value_heads": 2, "intermediate_size": 20}
SPEECH = {
    "vocab_size": 37, "num_mel_bins": 10, "d_model": 12, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 3, "decoder_attention_heads": 3, "encoder_ffn_dim": 20, "decoder_ffn_dim": 22,
    "max_source_positions": 17, "max_target_positions": 23, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 1,
}  # fmt: skip
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "GPT2LMHeadModel": ("GPT2Config", {
        "vocab_size": 37, "n_positions": 23, "n_embd": 12, "n_layer": 2, "n_head": 2, "n_inner": 20}),
    "LlamaForCausalLM": ("LlamaConfig", GQA),
    "Qwen3ForCausalLM": ("Qwen3Config", {
        **GQA, "hidden_size": 20, "head_dim": 8, "num_attention_heads": 10, "num_key_value_heads": 5}),
    "MixtralForCausalLM": ("MixtralConfig", {**GQA, "num_local_experts": 3, "experts_implementation": "eager"}),
    "BertForMaskedLM": ("BertConfig", {
        **TEXT, "hidden_size": 12, "num_attention_heads": 3, "intermediate_size": 20}),
    "ViTForImageClassification": ("ViTConfig", {
        "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20, "image_size": 12,
        "patch_size": 4, "num_labels": 5}),
    "WhisperModel": ("WhisperConfig", SPEECH),
}  # fmt: skip


def make(name: str, **entries: Any) -> tuple[nn.Module, gk.Inputs]:
    torch.manual_seed(0)
    kind, given = CONFIGS[name]
    model = getattr(transformers, name)(getattr(transformers, kind)(**given, **entries))
    model = randomise(model.double()).eval()
    tokens = torch.randint(0, 37, (2, 7))
    match name:
        case "ViTForImageClassification":
            return model, gk.Inputs(torch.randn(2, 3, 12, 12).double())
        case "WhisperModel":
            features = torch.randn(2, 10, 34).double()
            return model, gk.Inputs(input_features=features, decoder_input_ids=tokens, use_cache=False)
        case "BertForMaskedLM":
            return model, gk.Inputs(tokens)
    return model, gk.Inputs(tokens, use_cache=False)


def widen(model: nn.Module, inputs: gk.Inputs, factors: dict[str, float]) -> dict[str, float]:
    """Every axis that can grow and whose name matches."""
    names = [axis.name for axis in gk.discover(model, inputs) if not axis.locked]
    found = {name: factor for name in names for pattern, factor in factors.items() if re.search(pattern, name)}
    assert found
    return found


def outputs(model: nn.Module, inputs: gk.Inputs) -> torch.Tensor:
    with torch.no_grad(), float64():  # RMS norms of transformers compute in float32
        return model(*inputs.args, **inputs.kwargs)[0]


def assert_reloads(model: Any, inputs: gk.Inputs, before: torch.Tensor) -> None:
    """From its config, and from its config as a file holds it."""
    for config in (model.config, type(model.config).from_dict(model.config.to_dict())):
        config._experts_implementation = getattr(model.config, "_experts_implementation", None)
        other = type(model)(config).double().eval()
        other.load_state_dict(model.state_dict(), strict=True)
        torch.testing.assert_close(outputs(other, inputs), before, rtol=0, atol=1e-12 * float(before.abs().max()))


STREAM = r"attn.c_proj.weight\[1\]|o_proj.weight\[0\]"
KEYS = r"q_proj.weight\[0\].0"
QUERIES = r"q_proj.weight\[0\].1"
FFN = r"c_fc.weight\[1\]|gate_proj.weight\[0\]|intermediate.dense.weight\[0\]|mlp.fc1.weight\[0\]"
DESCRIBED = [
    ("GPT2LMHeadModel", {STREAM: 2.0, r"c_attn.weight\[1\].0": 2.0}, {"n_embd": (12, 24), "n_head": (2, 4)}),
    ("GPT2LMHeadModel", {STREAM: 1.5, r"c_attn.weight\[1\].0": 1.5, FFN: 1.5},
     {"n_embd": (12, 18), "n_head": (2, 3), "n_inner": (20, 30)}),
    ("LlamaForCausalLM", {STREAM: 1.5}, {"hidden_size": (24, 36)}),
    ("LlamaForCausalLM", {STREAM: 2.0, KEYS: 2.0, FFN: 1.5},
     {"hidden_size": (24, 48), "num_attention_heads": (6, 12), "num_key_value_heads": (2, 4),
      "intermediate_size": (20, 30)}),
    ("Qwen3ForCausalLM", {STREAM: 1.5, KEYS: 2.0, FFN: 1.5},
     {"hidden_size": (20, 30), "num_attention_heads": (10, 20), "num_key_value_heads": (5, 10)}),
    ("Qwen3ForCausalLM", {STREAM: 2.0, QUERIES: 2.0}, {"hidden_size": (20, 40), "num_attention_heads": (10, 20)}),
    ("BertForMaskedLM", {r"output.dense.weight\[0\]": 2.0, r"query.weight\[0\].0": 2.0},
     {"hidden_size": (12, 24), "num_attention_heads": (3, 6)}),
    ("ViTForImageClassification", {r"projection.weight\[0\]": 2.0}, {"hidden_size": (12, 24), "head_dim": (None, 4)}),
    ("ViTForImageClassification", {r"attention.\w_proj.weight\[0\].0": 2.0},
     {"num_attention_heads": (3, 6), "head_dim": (None, 4)}),
    ("MixtralForCausalLM", {STREAM: 2.0}, {"hidden_size": (24, 48), "head_dim": (None, 4)}),
    ("MixtralForCausalLM", {KEYS: 2.0, QUERIES: 2.0},
     {"num_attention_heads": (6, 24), "num_key_value_heads": (2, 4), "head_dim": (None, 4)}),
    ("WhisperModel", {r"encoder.*fc1.weight\[0\]": 1.5}, {"encoder_ffn_dim": (20, 30)}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "factors", "changes"), DESCRIBED)
def test_a_grown_model_is_built_from_its_config(
    name: str, factors: dict[str, float], changes: dict[str, tuple[Any, Any]]
) -> None:
    model, inputs = make(name)
    before = outputs(model, inputs)
    report = gk.grow(model, widen=widen(model, inputs, factors), example_inputs=inputs)
    (config,) = report.configs
    assert config.describes, config.problem
    assert {n: change for n, change in config.changes.items() if n in changes} == changes
    assert not report.plan.floats  # the eps of norms: one entry sizes norms of other axes too
    assert_reloads(model, inputs, before)


@pytest.mark.report("R030")
@pytest.mark.parametrize("name", ["LlamaForCausalLM", "Qwen3ForCausalLM", "ViTForImageClassification"])
def test_init_hooks_that_come_later_draw_nothing(name: str) -> None:
    """Neither in wider layers nor in new ones."""
    model, inputs = make(name)
    (stack,) = [name for name, module in model.named_modules() if isinstance(module, nn.ModuleList)]
    gk.grow(model, widen=widen(model, inputs, {FFN: 1.5}), deepen={stack: 3}, example_inputs=inputs)
    held = {name: value.clone() for name, value in model.state_dict().items()}
    model.post_init()
    model.init_weights()
    torch.testing.assert_close(dict(model.state_dict()), held, rtol=0, atol=0)


def test_an_eps_that_follows_an_axis_is_found_in_the_config() -> None:
    model, inputs = make("LlamaForCausalLM")
    before = outputs(model, inputs)
    widened = widen(model, inputs, {STREAM: 1.5})
    report = gk.grow(model, widen=widened, example_inputs=inputs, method="zero_pad")
    assert report.configs[0].describes, report.configs[0].problem
    assert report.configs[0].changes["rms_norm_eps"] == (1e-6, pytest.approx(1e-6 * 24 / 36))
    assert_reloads(model, inputs, before)


def test_two_growths_and_their_replay() -> None:
    model, inputs = make("Qwen3ForCausalLM")
    fresh, _ = make("Qwen3ForCausalLM")
    before = outputs(model, inputs)
    for factors in ({STREAM: 1.5, FFN: 1.5}, {STREAM: 2.0, KEYS: 2.0}):
        report = gk.grow(model, widen=widen(model, inputs, factors), example_inputs=inputs)
        assert report.configs[0].describes, report.configs[0].problem
        gk.grow(fresh, gk.Plan.from_json(report.plan.to_json()), example_inputs=inputs)
    assert_reloads(model, inputs, before)
    assert fresh.config.to_dict() == model.config.to_dict()  # type: ignore[operator, union-attr]
    assert all(torch.equal(value, fresh.state_dict()[name]) for name, value in model.state_dict().items())


@pytest.mark.report("R028")
@pytest.mark.parametrize(("at", "of"), [([2], [0, 1, 1]), ([0, 1, 2], [0, 0, 0, 1, 1])])
def test_kinds_of_layers_follow_new_blocks(at: list[int], of: list[int]) -> None:
    model: Any
    kinds = ["full_attention", "sliding_attention"]
    model, inputs = make("Qwen3ForCausalLM", layer_types=[*kinds], use_sliding_window=True, sliding_window=3)
    before = outputs(model, inputs)
    options = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    generated = model.generate(inputs.args[0], use_cache=True, **options)
    report = gk.grow(model, deepen={"layers": gk.Insert(at=at)}, example_inputs=inputs)
    assert report.configs[0].describes, report.configs[0].problem
    assert model.config.layer_types == [kinds[kind] for kind in of]
    assert [layer.self_attn.layer_idx for layer in model.model.layers] == [*range(2 + len(at))]
    assert_reloads(model, inputs, before)
    assert torch.equal(model.generate(inputs.args[0], use_cache=True, **options), generated)


def test_a_stream_without_its_heads_is_no_gpt2() -> None:
    model, inputs = make("GPT2LMHeadModel")
    given = model.config.to_dict()  # type: ignore[operator, union-attr]
    report = gk.grow(model, widen=widen(model, inputs, {r"attn.c_proj.weight\[1\]": 2.0}), example_inputs=inputs)
    assert "c_attn.weight would be 24x72, and is 24x36" in report.configs[0].problem
    assert model.config.to_dict() == given  # type: ignore[operator, union-attr]


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "LlamaForCausalLM"])
def test_a_grown_model_is_saved_and_loaded(name: str, tmp_path: Path) -> None:
    model: Any
    model, inputs = make(name)
    before = outputs(model, inputs)
    gk.grow(model, widen=widen(model, inputs, {FFN: 2.0}), example_inputs=inputs)
    model.save_pretrained(tmp_path, safe_serialization=True)
    other = type(model).from_pretrained(tmp_path, dtype=torch.float64).eval()
    torch.testing.assert_close(outputs(other, inputs), before, rtol=0, atol=1e-12 * float(before.abs().max()))


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "LlamaForCausalLM"])
def test_a_grown_model_generates_the_same(name: str) -> None:
    model: Any
    model, inputs = make(name)
    tokens = inputs.args[0]
    options = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    before = model.generate(tokens, use_cache=True, **options)
    gk.grow(model, widen=widen(model, inputs, {FFN: 2.0}), example_inputs=inputs)
    assert torch.equal(model.generate(tokens, use_cache=True, **options), before)


@pytest.mark.parametrize("entry", HF_CONFORMERS[:2], ids=lambda entry: entry.name)
def test_the_stream_of_a_wav2vec2_conformer_grows_with_all_the_rest(entry: Entry) -> None:
    model, inputs = entry.make()
    before, table = copy.deepcopy(model), gk.discover(model, inputs, layouts=entry.layouts)
    axes = [axis for axis in table if not axis.locked and axis.kind in ("stream", "heads", "hidden", "channels")]
    unread = [name for name in table.unread if name not in (entry.layouts or {})]
    kept = {"layouts": entry.layouts, "leave": unread}
    streams = {axis.name: 2.0 for axis in axes if axis.kind == "stream"}
    assert streams
    gk.grow(copy.deepcopy(model), widen=streams, example_inputs=inputs, **kept)  # type: ignore[arg-type]
    report = gk.grow(model, widen={axis.name: 2.0 for axis in axes}, example_inputs=inputs, **kept)  # type: ignore[arg-type]
    assert report.verification is not None
    assert report.verification.passed
    # tables of positions are made from the width of the stream, so others would come out of a new model
    assert not report.configs[0].describes
    assert sum(p.numel() for p in model.parameters()) > 2 * sum(p.numel() for p in before.parameters())


@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("factors", [(2.0, 1.0), (1.0, 2.0), (3.0, 2.0)])
def test_the_stream_of_wav2vec2_grows_through_its_weight_norm(factors: tuple[float, float], pre_norm: bool) -> None:
    """Groups of the positional convolution, and channels inside them: its lengths take what the norm changes by."""
    norms = {"feat_extract_norm": "layer" if pre_norm else "group", "do_stable_layer_norm": pre_norm}
    torch.manual_seed(0)
    config = transformers.Wav2Vec2Config(**waveform_options(lambda number: number), **norms)
    model: Any = randomise(transformers.Wav2Vec2ForCTC(config).double()).eval()
    inputs = gk.Inputs(torch.randn(3, 113).double())
    before, lengths = outputs(model, inputs), model.wav2vec2.encoder.pos_conv_embed.conv.parametrizations.weight
    old = lengths.original0.detach().clone()
    stream = "wav2vec2.feature_projection.projection.weight[0]"
    layouts = {"wav2vec2.masked_spec_embed": f"({stream}.0 {stream}.1):produces"}
    grown = {f"{stream}.{part}": factor for part, factor in enumerate(factors) if factor > 1}
    widened = grown | widen(model, inputs, {r"k_proj.weight\[0\].0": factors[0] * factors[1]})
    report = gk.grow(model, widen=widened, example_inputs=inputs, layouts=layouts)
    torch.testing.assert_close(lengths.original0, old * factors[0] ** 0.5, rtol=1e-14, atol=0)
    assert report.configs[0].describes, report.configs[0].problem
    assert_reloads(model, inputs, before)
