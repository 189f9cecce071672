"""Attention of every ordinary kind: the layouts found, and growths of all that is found, exact in float64."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import growkit as gk
from growkit.testing import randomise
from tests.discovery.models import X
from tests.discovery.written import agree
from tests.end_to_end import attentions
from tests.end_to_end.sweeps import Sweep

DIFFERENT = {"width": 10, "heads": 3, "group": 2, "dim": 7}
EQUAL = {"width": 6, "heads": 6, "group": 6, "dim": 6}
QKV = {
    **{f"{name}.weight": "(heads qk):produces stream:consumes" for name in ("q", "k")},
    "v.weight": "(heads v):produces stream:consumes",
    "out.weight": "stream:produces (heads v):consumes",
}
GROUPED = QKV | {
    "q.weight": "(heads group qk):produces stream:consumes",
    "out.weight": "stream:produces (heads group v):consumes",
}
KIND = {
    **dict.fromkeys(("heads", "group"), "heads"),
    **dict.fromkeys(("qk", "e", "p", "d"), "head_dim"),
    **dict.fromkeys(("key", "value", "buckets"), "fixed"),
    "stream": "stream",
}
KINDS: dict[str, dict[str, str]] = {
    "Around": QKV,
    "MaskInABuffer": QKV,
    "SoftCapped": QKV,
    "NormedQueries": QKV | {"q_norm.weight": "qk:gain"},
    "BucketBias": QKV | {"bias.weight": "buckets heads:produces"},
    "DistanceKeys": QKV | {"distance.weight": "buckets qk:produces"},
    "RelativeShift": QKV | {"position.weight": "(heads qk):produces inner:consumes", "u": "heads:produces qk:produces"},
    "OneKeyHead": {
        "qkv.weight": "([heads|key|value] d):produces stream:consumes",
        "out.weight": "stream:produces (heads d):consumes",
    },
    "KeyHeadInEachGroup": {
        "qkv.weight": "(heads [group|key|value] d):produces stream:consumes",
        "out.weight": "stream:produces (heads group d):consumes",
    },
    "Interleaved": {
        "qkv.weight": "(heads [e|e|p|e|e|p|v]):produces stream:consumes",
        "out.weight": "stream:produces (heads v):consumes",
    },
    "Grouped": GROUPED,
    "Repeated": GROUPED,
    "OneProjection": {
        "layers.0.qkv.weight": "[(heads group qk)|(heads qk)|(heads v)]:produces stream:consumes",
        "layers.0.out.weight": "stream:produces (heads group v):consumes",
        "layers.1.qkv.weight": "[(heads1 group1 qk1)|(heads1 qk1)|(heads1 v1)]:produces stream:consumes",
        "layers.1.out.weight": "stream:produces (heads1 group1 v1):consumes",
    },
}


def built(kind: str, sizes: dict[str, int]) -> nn.Module:
    torch.manual_seed(0)
    return randomise(getattr(attentions, kind)(sizes).double().eval())


@pytest.mark.parametrize("sizes", [DIFFERENT, EQUAL])
@pytest.mark.parametrize("kind", KINDS)
def test_layouts_and_a_growth_of_all_heads(kind: str, sizes: dict[str, int]) -> None:
    model = built(kind, sizes)
    table = gk.discover(model, X)
    named = agree(table, KINDS[kind])
    axes = {label.rstrip("1"): table.by_name[name] for label, name in named.items()}
    for label, axis in axes.items():
        if label in KIND:
            assert axis.kind == KIND[label]
        if label in sizes:
            assert (axis.size, axis.locks) == (sizes[label], ())
    grown = Sweep(model, X)
    wanted = {name: table.sizes[name] + 1 for label, name in named.items() if label.startswith(("heads", "group"))}
    grown.grow(grown.plan(wanted))
    grown.grow(grown.plan({name: 2 * table.sizes[name] for name in wanted}, "copy"))
    grown.grow(grown.plan({named["stream"]: 2 * sizes["width"]}))
    assert (grown.exact, dict(grown.refused)) == (3, {})
    assert grown.worst <= 1e-12


def test_dims_of_heads_behind_a_norm_of_queries_do_not_grow() -> None:
    table = gk.discover(built("NormedQueries", DIFFERENT), X)
    (axis,) = table["q_norm.weight[0]"]
    assert axis.kind == "head_dim"
    assert axis.locked


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [DIFFERENT, EQUAL])
@pytest.mark.parametrize("kind", KINDS)
def test_every_axis_grows_or_is_refused(kind: str, sizes: dict[str, int]) -> None:
    sweep = Sweep(built(kind, sizes), X)
    sweep.every_axis()
    sweep.all_at_once()
    assert sweep.grown == set(sweep.unlocked)
    assert sweep.worst <= 1e-12
