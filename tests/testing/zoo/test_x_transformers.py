"""Models of x-transformers: their axes, written by hand."""

from __future__ import annotations

import pytest

from tests.testing.zoo.layers import Layouts, check_entry, families, linear

pytestmark = pytest.mark.slow

LAYERS = "attn_layers.layers"


def _attention(layer: int, heads: str, queries: str) -> Layouts:
    name, values = f"{LAYERS}.{layer}.1", f"({heads} v{layer})"
    return {
        **linear(f"{name}.to_q", f"({heads} {queries})", "m", bias=False),
        **linear(f"{name}.to_k", f"({heads} {queries})", "m", bias=False),
        **linear(f"{name}.to_v", values, "m", bias=False),
        **linear(f"{name}.to_out", "m", values, bias=False),
    }


def _decoder() -> Layouts:
    found = {"token_emb.emb.weight": "entries:produces m:produces", "attn_layers.rotary_pos_emb.inv_freq": "e:gain"}
    for layer in (0, 2):
        found |= _attention(layer, f"h{layer}", f"[(e pair)|rest{layer}]")  # neighbours are rotated
    for layer in (1, 3):
        found |= linear(f"{LAYERS}.{layer}.1.ff.0.proj", f"[f{layer}|f{layer}]", "m")
        found |= linear(f"{LAYERS}.{layer}.1.ff.2", "m", f"f{layer}")
    norms = [f"{LAYERS}.{layer}.0.0" for layer in range(4)] + ["attn_layers.final_norm"]
    return found | {f"{name}.g": "m:gain" for name in norms} | linear("to_logits", "out", "m", bias=False)


def _encoder() -> Layouts:
    found = {
        "pos_emb.emb.weight": "longest:produces m:produces",
        **linear("project_in", "m", "in", bias=False),
        **linear("project_out", "out", "m", bias=False),
        "attn_layers.rel_pos.slopes": "h:produces 1 1",
    }
    for layer in (0, 2):
        found |= _attention(layer, "h", f"k{layer}")  # the slopes tie the heads of all layers
    for layer in (1, 3):
        found |= linear(f"{LAYERS}.{layer}.1.ff.0.0", f"f{layer}", "m")
        found |= linear(f"{LAYERS}.{layer}.1.ff.2", "m", f"f{layer}")
    norms = [f"{LAYERS}.{layer}.0.0" for layer in range(4)] + ["attn_layers.final_norm"]
    return found | {f"{name}.gamma": "m:gain" for name in norms}


WRITTEN = families(("x-transformers decoder", _decoder()), ("x-transformers encoder", _encoder()))


@pytest.mark.parametrize(("name", "written"), WRITTEN)
def test_axes_are_those_written_by_hand(name: str, written: Layouts) -> None:
    check_entry(name, written)
