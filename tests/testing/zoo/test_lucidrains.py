"""The Conformer of the package conformer: its axes, written by hand."""

from __future__ import annotations

import pytest

from tests.testing.zoo.layers import Layouts, batch_norm, check_entry, conv, depthwise, linear, norm

pytestmark = pytest.mark.slow


def _conformer() -> Layouts:
    found = {}
    for layer in ("layers.0", "layers.1"):
        h, k, v, c = (f"{layer}.{axis}" for axis in "hkvc")
        for half in ("ff1", "ff2"):
            hidden = f"{layer}.{half}.hidden"
            found |= {
                **norm(f"{layer}.{half}.fn.norm", "m"),
                **linear(f"{layer}.{half}.fn.fn.net.0", hidden, "m"),
                **linear(f"{layer}.{half}.fn.fn.net.3", "m", hidden),
            }
        found |= {
            **norm(f"{layer}.attn.norm", "m"),
            **linear(f"{layer}.attn.fn.to_q", f"({h} {k})", "m", bias=False),
            **linear(f"{layer}.attn.fn.to_kv", f"[({h} {k})|({h} {v})]", "m", bias=False),
            **linear(f"{layer}.attn.fn.to_out", "m", f"({h} {v})"),
            f"{layer}.attn.fn.rel_pos_emb.weight": f"{layer}.distances {k}:produces",
            **norm(f"{layer}.conv.net.0", "m"),
            **conv(f"{layer}.conv.net.2", f"[{c}|{c}]", "m", (1,)),
            **depthwise(f"{layer}.conv.net.4.conv", c, (7,)),
            **batch_norm(f"{layer}.conv.net.5", c),
            **conv(f"{layer}.conv.net.7", "m", c, (1,)),
            **norm(f"{layer}.post_norm", "m"),
        }
    return found


def test_axes_are_those_written_by_hand() -> None:
    check_entry("conformer", _conformer())
