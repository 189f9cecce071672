"""Causal language models: their axes, written by hand."""

from __future__ import annotations

import pytest

from growkit.discovery.discover import discover
from growkit.testing.zoo import ZOO
from tests.testing.zoo.layers import Layouts, check_entry, families, linear, norm, recurrent


def _decoder(final: Layouts, head: Layouts, mask: bool = False) -> Layouts:
    found = {"tokens.weight": "entries:produces m:produces", "positions.weight": "longest:produces m:produces"}
    for i in (0, 1):
        block, inner = f"blocks.{i}", f"(h{i} k{i})|(h{i} k{i})|(h{i} v{i})"
        found |= {
            **norm(f"{block}.norm1", "m"),
            **norm(f"{block}.norm2", "m"),
            f"{block}.attention.qkv.weight": f"[{inner}]:produces m:consumes",
            **linear(f"{block}.attention.out", "m", f"(h{i} v{i})"),
            **linear(f"{block}.up", f"hidden{i}", "m"),
            **linear(f"{block}.down", "m", f"hidden{i}"),
        }
        if mask:
            found[f"{block}.attention.mask"] = MASKS[i]
    return found | final | head


MASKS = [f"[time:produces|later{a}] [time:produces|later{b}]" for a, b in ((0, 1), (2, 3))]
OWN = linear("head", "out", "m", bias=False)
TIED = {"tokens.weight": "out:produces m:produces"}
DIVIDED = {"norm.weight": "m:readout", "norm.bias": "m:consumes"}

WRITTEN = families(
    ("decoder", _decoder(norm("norm", "m"), OWN)),
    ("decoder, attention written out", _decoder(norm("norm", "m"), OWN, mask=True)),
    ("tied decoder", _decoder(DIVIDED, TIED)),
    ("tied decoder, RMS norm", _decoder({"norm.weight": "m:readout"}, TIED)),
    # one tensor has both roles, so it is shown with none
    ("tied decoder without a final norm", _decoder({}, {"tokens.weight": "out:produces m"})),
    (
        "tied recurrent language model",
        {
            "tokens.weight": "out:produces m:produces",
            **recurrent("layer", 4, "m", "m"),
            **DIVIDED,
        },
    ),
    (
        "tied recurrent language model with a projection",
        {
            "tokens.weight": "out:produces m:produces",
            **recurrent("layer", 4, "hidden", "m"),
            "projection.weight": "m:consumes hidden:consumes",
            "projection.bias": "m:consumes",
        },
    ),
)


@pytest.mark.parametrize(("name", "written"), WRITTEN)
def test_axes_are_those_written_by_hand(name: str, written: Layouts) -> None:
    check_entry(name, written)


def test_the_stream_of_a_tied_decoder_is_locked_where_nothing_scales_what_the_head_reads() -> None:
    locked = {}
    for name in ("tied decoder", "tied decoder, RMS norm", "tied decoder without a final norm"):
        model, inputs = ZOO[name].make()
        (stream,) = discover(model, inputs)["tokens.weight[1]"]
        locked[name] = stream.locked
    assert locked == {
        "tied decoder": False,
        "tied decoder, RMS norm": False,
        "tied decoder without a final norm": True,
    }
