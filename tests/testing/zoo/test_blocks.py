"""Networks of blocks that people combine: their axes, written by hand."""

from __future__ import annotations

import pytest

from tests.testing.zoo.layers import (
    Layouts,
    batch_norm,
    check_entry,
    conv,
    depthwise,
    families,
    linear,
    norm,
    transposed,
)  # fmt: skip

POINT = (1, 1)


def _bottleneck(name: str, entering: str, inside: tuple[str, str], leaving: str, middle: Layouts) -> Layouts:
    return {
        **conv(f"{name}.conv1", inside[0], entering, POINT, bias=False),
        **batch_norm(f"{name}.norm1", inside[0]),
        **middle,
        **batch_norm(f"{name}.norm2", inside[1]),
        **conv(f"{name}.conv3", leaving, inside[1], POINT, bias=False),
        **batch_norm(f"{name}.norm3", leaving),
    }


BOTTLENECKS: Layouts = {
    **conv("0", "a", "in"),
    **batch_norm("1", "a"),
    **_bottleneck("3", "a", ("c", "d"), "a", conv("3.conv2", "d", "c", bias=False)),
    **_bottleneck("4", "a", ("e", "e"), "a", depthwise("4.conv2", "e", bias=False)),
    **_bottleneck("5", "a", ("(g p)", "(g q)"), "b", {"5.conv2.weight": "(g:gain q:produces) p:consumes height width"}),
    **conv("5.shortcut.0", "b", "a", POINT, bias=False),
    **batch_norm("5.shortcut.1", "b"),
    **linear("8", "out", "b"),
}


def _stage(name: str, leaving: str, entering: str) -> Layouts:
    return conv(f"{name}.0", leaving, entering) | norm(f"{name}.1", leaving)


NORMED_U_NET: Layouts = {
    **_stage("down1", "(2a a)", "in"),
    **_stage("down2", "(2b b)", "(2a a)"),
    **_stage("bottom", "(2c c)", "(2b b)"),
    **transposed("up", "d", "(2c c)"),
    **_stage("merge2", "(2e e)", "[d|(2b b)]"),
    **_stage("merge1", "(2f f)", "[(2e e)|(2a a)]"),
    **conv("leave", "out", "(2f f)", POINT),
}


def _squeeze_and_excite() -> Layouts:
    found = conv("0", "m", "in") | linear("5", "out", "m")
    for i in ("1", "2"):
        found |= {
            **conv(f"{i}.expand", f"c{i}", "m", POINT, bias=False),
            **batch_norm(f"{i}.norm1", f"c{i}"),
            **depthwise(f"{i}.mix", f"c{i}", bias=False),
            **batch_norm(f"{i}.norm2", f"c{i}"),
            **linear(f"{i}.squeeze", f"s{i}", f"c{i}"),
            **linear(f"{i}.excite", f"c{i}", f"s{i}"),
            **conv(f"{i}.project", "m", f"c{i}", POINT, bias=False),
            **batch_norm(f"{i}.norm3", "m"),
        }
    return found


def _layer_scale() -> Layouts:
    found = conv("0", "m", "in") | conv("3", "out", "m", POINT)
    for i in ("1", "2"):
        found |= {
            **depthwise(f"{i}.mix", "m"),
            **norm(f"{i}.norm", "m"),
            **linear(f"{i}.up", f"h{i}", "m"),
            **linear(f"{i}.down", "m", f"h{i}"),
            f"{i}.scale": "m:gain",
        }
    return found


def _mixer() -> Layouts:
    found = {**conv("patch", "m", "in"), **norm("norm", "m"), **linear("leave", "out", "m")}
    for i in ("0", "1"):
        found |= {
            **norm(f"blocks.{i}.norm1", "m"),
            **norm(f"blocks.{i}.norm2", "m"),
            **linear(f"blocks.{i}.patches.0", f"p{i}", "(height width)"),
            **linear(f"blocks.{i}.patches.2", "(height width)", f"p{i}"),
            **linear(f"blocks.{i}.channels.0", f"c{i}", "m"),
            **linear(f"blocks.{i}.channels.2", "m", f"c{i}"),
        }
    return found


def _adapted(name: str, out: str, read: str) -> Layouts:
    return {
        **linear(f"{name}.linear", out, read),
        f"{name}.a": f"{name}.rank:produces {read}:consumes",
        f"{name}.b": f"{out}:produces {name}.rank:consumes",
    }


EINSUM: Layouts = {
    **linear("enter", "m", "in"),
    **{name: "m:consumes h:produces k:produces" for name in ("query", "key")},
    "value": "m:consumes h:produces v:produces",
    "out": "h:consumes v:consumes m:produces",
    **norm("norm", "m"),
    **linear("gate", "[f|f]", "m"),
    **linear("down", "m", "f"),
    **linear("leave", "out", "m"),
}
WEIGHING: Layouts = {
    **linear("enter", "m", "in"),
    **linear("keys", "a", "in"),
    **linear("values", "b", "in"),
    "attention.q_proj_weight": "(h k):produces m:consumes",
    "attention.k_proj_weight": "(h k):produces a:consumes",
    "attention.v_proj_weight": "(h v):produces b:consumes",
    "attention.in_proj_bias": "[(h k)|(h k)|(h v)]:produces",
    **linear("attention.out_proj", "mixed", "(h v)"),
    **linear("leave", "out", "mixed"),
}


def _normed(name: str, out: tuple[str, str], read: str, place: str) -> Layouts:
    """The size of a kernel, one number for each output channel, and its direction, whose scale has no effect."""
    weight = f"{name}.parametrizations.weight"
    return {
        f"{name}.bias": f"{out[1].replace(':produces', '').replace(':gain', '')}:produces",
        f"{weight}.original0": f"{out[1]} 1 1",
        f"{weight}.original1": f"{out[0]}:gain {read}:consumes {place}",
    }


WEIGHT_NORMS: Layouts = {
    **_normed("0", ("(g a)", "(g a):produces"), "in", "place0"),
    **_normed("2", ("(g b)", "(g:gain b:produces)"), "a", "place2"),
    **_normed("4", ("c", "c:produces"), "(g b)", "1"),
    **conv("6", "out", "c", (1,)),
}

WRITTEN = families(
    ("low-rank adapters", _adapted("0", "a", "in") | _adapted("2", "b", "a") | linear("4", "out", "b")),
    ("weight-normed convolutions", WEIGHT_NORMS),
    ("bottleneck convolutions", BOTTLENECKS),
    ("U-Net, group norms", NORMED_U_NET),
    ("squeeze and excite", _squeeze_and_excite()),
    ("ConvNeXt blocks", _layer_scale()),
    ("MLP-Mixer", _mixer()),
    ("attention by einsum", EINSUM),
    ("MultiheadAttention, weights", WEIGHING),
)


@pytest.mark.parametrize(("name", "written"), WRITTEN)
def test_axes_are_those_written_by_hand(name: str, written: Layouts) -> None:
    check_entry(name, written)
