"""Language models of transformers: their axes, written by hand."""

from __future__ import annotations

import pytest

from tests.testing.zoo.layers import Layouts, check_entry, families, norm

pytestmark = pytest.mark.slow


def _conv1d(name: str, out: str, read: str) -> Layouts:
    """GPT-2's linear layer: `'read out'`."""
    return {f"{name}.weight": f"{read}:consumes {out}:produces", f"{name}.bias": f"{out}:produces"}


def _gpt2() -> Layouts:
    found = {"transformer.wte.weight": "entries m:produces", "transformer.wpe.weight": "longest m:produces"}
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
    return found | {"transformer.ln_f.weight": "m:consumes", "transformer.ln_f.bias": "m:consumes"} | TIED


TIED = {"transformer.wte.weight": "entries:produces m:produces"}

WRITTEN = families(("GPT-2", _gpt2()))


@pytest.mark.parametrize(("name", "written"), WRITTEN)
def test_axes_are_those_written_by_hand(name: str, written: Layouts) -> None:
    check_entry(name, written)
