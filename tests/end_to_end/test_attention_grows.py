"""Attention of every ordinary kind: the layouts found, and growths of all that is found, exact in float64."""

from __future__ import annotations

import ast
from typing import Any

import pytest
import torch
from torch import nn

import growkit as gk
from growkit.axes.expressions import leaves
from growkit.errors import TieError
from growkit.testing import randomise
from growkit.testing.sweep import Sweep
from tests.discovery.models import X
from tests.discovery.written import agree
from tests.end_to_end import attentions
from tests.end_to_end.attentions import Torch

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
    "Blocks": {
        "qkv.weight": "[(heads qk)|(heads qk)|(heads v)]:produces stream:consumes",
        "out.weight": "stream:produces (heads v):consumes",
    },
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
    "Latent": {
        "q.weight": "(heads [p|e|e]):produces stream:consumes",
        "low.weight": "[rank|e|e]:produces stream:consumes",
        "norm.weight": "rank:gain",
        "high.weight": "(heads [p|v]):produces rank:consumes",
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
    grown.grow(wanted)
    grown.grow({name: 2 * table.sizes[name] for name in wanted}, "copy")
    grown.grow({named["stream"]: 2 * sizes["width"]})
    assert [(attempt.outcome, attempt.reason) for attempt in grown.attempts] == [("exact", "")] * 3


MHA = {"heads": 3, "dim": 4}
PACKED = {
    "attention.in_proj_weight": "[(heads qk)|(heads qk)|(heads v)]:produces stream:consumes",
    "attention.out_proj.weight": "stream:produces (heads v):consumes",
}
SEPARATE = {
    "attention.q_proj_weight": "(heads qk):produces stream:consumes",
    "attention.k_proj_weight": "(heads qk):produces keys:consumes",
    "attention.v_proj_weight": "(heads v):produces values:consumes",
    "attention.in_proj_bias": "[(heads qk)|(heads qk)|(heads v)]:produces",
    "attention.out_proj.weight": "stream:produces (heads v):consumes",
}
BIASES = {f"attention.bias_{name}": f"1 1 (heads {dim}):produces" for name, dim in (("k", "qk"), ("v", "v"))}


@pytest.mark.parametrize("sizes", [MHA, {"heads": 3, "dim": 3}])
@pytest.mark.parametrize(
    ("options", "layouts"),
    [
        ({}, PACKED),
        ({"bias": False, "add_zero_attn": True}, PACKED),
        ({"sources": (12, 12)}, PACKED),
        ({"sources": (7, 9)}, SEPARATE),
        ({"sources": (7, 9), "add_bias_kv": True, "add_zero_attn": True}, SEPARATE | BIASES),
    ],
)
def test_torch_s_attention_grows_heads_or_their_dims_with_the_stream(
    options: dict[str, Any], layouts: dict[str, str], sizes: dict[str, int]
) -> None:
    width = sizes["heads"] * sizes["dim"]
    if options.get("sources") == (12, 12):
        options = options | {"sources": (width, width)}
    torch.manual_seed(0)
    model = randomise(Torch(sizes, **options).double().eval())
    table = gk.discover(model, X)
    named = agree(table, layouts)
    assert {label: table.by_name[named[label]].kind for label in ("heads", "qk", "v")} == {
        "heads": "heads",
        "qk": "head_dim",
        "v": "head_dim",
    }
    heads = {named["heads"]: sizes["heads"] + 1, named["stream"]: width + sizes["dim"]}
    dims = {named["qk"]: sizes["dim"] + 1, named["v"]: sizes["dim"] + 1, named["stream"]: width + sizes["heads"]}
    for labels, wanted in ((["heads"], heads), (["stream"], heads), (["qk"], dims), (["stream", "qk"], dims)):
        with pytest.raises(TieError) as error:
            gk.make_plan(table, {named[label]: wanted[named[label]] for label in labels})
        assert ast.literal_eval(error.value.next_step.removeprefix("pass widen=")) == wanted
    grown = Sweep(model, X)
    for wanted in (heads, dims):
        grown.grow(wanted)
        grown.grow({name: 2 * table.sizes[name] for name in wanted}, "copy")
    assert [(attempt.outcome, attempt.reason) for attempt in grown.attempts] == [("exact", "")] * 4


def test_torch_s_attention_does_not_grow_dims_of_keys_without_those_of_values() -> None:
    for sources, key, value in (
        (None, "attention.in_proj_weight[0].1", "attention.in_proj_weight[0].5"),
        ((12, 12), "attention.in_proj_weight[0].1", "attention.in_proj_weight[0].5"),
        ((7, 9), "attention.q_proj_weight[0].1", "attention.v_proj_weight[0].1"),
    ):
        table = gk.discover(Torch(MHA, sources=sources).double().eval(), X)
        tied = [{leaf.axis for size in e.sizes for leaf in leaves(size)} for e in table.equalities]
        assert any({key, value} <= axes for axes in tied)


def test_weights_of_attention_that_the_model_gives_are_a_mean_over_heads() -> None:
    table = gk.discover(Torch(MHA, weights=True).double().eval(), X)
    (heads,) = table["attention.num_heads"]
    assert heads.admits == ("multiples of 3 (copy)",)


def test_dims_of_heads_behind_a_norm_of_queries_grow_by_copies_only() -> None:
    """New units would have to be zero in queries and keys alike, and stay so for ever."""
    table = gk.discover(built("NormedQueries", DIFFERENT), X)
    (axis,) = table["q_norm.weight[0]"]
    assert axis.kind == "head_dim"
    assert {method for words in axis.admits for method in ("fresh", "zero_pad", "mean_pad") if method in words} == set()
    assert axis.admits


@pytest.mark.parametrize("sizes", [DIFFERENT, EQUAL])
@pytest.mark.parametrize("kind", ["Interleaved", "Latent"])
def test_dims_beside_turned_ones_grow_by_zero_queries(kind: str, sizes: dict[str, int]) -> None:
    """Their share of the scores is not to grow, as it would by copies: those of the turned ones stay as they are."""
    model = built(kind, sizes)
    table = gk.discover(model, X)
    named = agree(table, KINDS[kind])
    kept = table.by_name[named["p"]]
    assert (kept.kind, kept.admits) == ("head_dim", ("any size (fresh, isometric)",))
    wanted = {named[label]: table.sizes[named[label]] + 1 for label in ("p", "v")}
    grown = Sweep(model, X)
    grown.grow(wanted)
    grown.grow({**wanted, named["e"]: table.sizes[named["e"]] + 2, named["v"]: table.sizes[named["v"]] + 5})
    assert [(attempt.outcome, attempt.reason) for attempt in grown.attempts] == [("exact", "")] * 2


@pytest.mark.parametrize("kind", ["Interleaved", "Latent"])
def test_dims_beside_turned_ones_do_not_grow_with_a_temperature_of_the_kernel(kind: str) -> None:
    model = built(kind, DIFFERENT)
    model.scale = None
    table = gk.discover(model, X)
    named = agree(table, KINDS[kind])
    assert "two activations" in " ".join(lock.reason for lock in table.by_name[named["p"]].locks)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [DIFFERENT, EQUAL])
@pytest.mark.parametrize("kind", KINDS)
def test_every_axis_grows_or_is_refused(kind: str, sizes: dict[str, int]) -> None:
    sweep = Sweep(built(kind, sizes), X)
    sweep.every_axis()
    together = sweep.together({}, 2.0)
    assert together is not None
    assert together.outcome == "exact", together.reason
    assert sweep.of("wrong") == sweep.of("caught") == []
    assert sweep.of("exact")
