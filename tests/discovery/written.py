"""Layouts written by hand, and their comparison with found ones."""

from __future__ import annotations

import re

from growkit.axes.expressions import leaves
from growkit.axes.patterns import parse
from growkit.axes.table import AxisTable


def check_layouts(table: AxisTable, written: dict[str, str]) -> None:
    """The same axes, structure and roles as the layouts written by hand, whatever the names."""
    agree(table, written)
    assert set(written) == {name for name, layout in table.layouts.items() if layout.dims}


def agree(table: AxisTable, written: dict[str, str]) -> dict[str, str]:
    """As `check_layouts`, for some of the tensors; the axis of each label."""
    names: dict[str, str] = {}
    for tensor, text in written.items():
        expected = parse(text)
        layout = table.layouts[tensor]
        ours = [leaf.axis for leaf in layout]
        theirs = [leaf.axis for dim in expected for leaf in leaves(dim)]
        assert len(ours) == len(theirs), f"{tensor}: {layout} is not {text}"
        for mine, label in zip(ours, theirs, strict=True):
            assert names.setdefault(label, mine) == mine, f"{tensor}: {label} is {names[label]} and {mine}"
        assert layout.rename({mine: label for label, mine in names.items()}).dims == expected, tensor
    assert len(set(names.values())) == len(names)
    return names


ATTENTION = {
    "enter.weight": "stream:produces in:consumes",
    "enter.bias": "stream:produces",
    **{f"{name}.weight": "(heads qk):produces stream:consumes" for name in ("query", "key")},
    **{f"{name}.bias": "(heads qk):produces" for name in ("query", "key")},
    "value.weight": "(heads v):produces stream:consumes",
    "value.bias": "(heads v):produces",
    "out.weight": "stream:produces (heads v):consumes",
    "out.bias": "stream:produces",
    "leave.weight": "out:produces stream:consumes",
    "leave.bias": "out:produces",
}
RESIDUAL = {
    "enter.weight": "stream:produces in:consumes",
    "enter.bias": "stream:produces",
    "leave.weight": "out:produces stream:consumes",
    "leave.bias": "out:produces",
    **{f"norms.{i}.weight": "stream:gain" for i in (0, 1)},
    **{f"norms.{i}.bias": "stream:bias" for i in (0, 1)},
    **{f"up.{i}.weight": f"hidden{i}:produces stream:consumes" for i in (0, 1)},
    **{f"up.{i}.bias": f"hidden{i}:produces" for i in (0, 1)},
    **{f"down.{i}.weight": f"stream:produces hidden{i}:consumes" for i in (0, 1)},
    **{f"down.{i}.bias": "stream:produces" for i in (0, 1)},
}
GATED = {
    "up.weight": "[c|c]:produces in:consumes",
    "up.bias": "[c|c]:produces",
    "depthwise.weight": "c:gain 1 kernel",
    "depthwise.bias": "c:produces",
    "norm.weight": "c:gain",
    "norm.bias": "c:bias",
    "norm.running_mean": "c:mean",
    "norm.running_var": "c:variance",
    "down.weight": "out:produces c:consumes",
    "down.bias": "out:produces",
}
FUSED = {
    "qkv.weight": "[(h k)|(h k)|(h v)]:produces in:consumes",
    "qkv.bias": "[(h k)|(h k)|(h v)]:produces",
    "out.weight": "out:produces (h v):consumes",
    "out.bias": "out:produces",
}
SUBSAMPLING = {
    "first.weight": "a:produces image:consumes k1 k2",
    "first.bias": "a:produces",
    "norm.weight": "a:gain",
    "norm.bias": "a:bias",
    "norm.running_mean": "a:mean",
    "norm.running_var": "a:variance",
    "second.weight": "b:produces a:consumes k3 k4",
    "second.bias": "b:produces",
    "leave.weight": "out:produces (b frequency):consumes",
    "leave.bias": "out:produces",
}


def conformer_layouts(layers: int) -> dict[str, str]:
    """The layouts of `conformer()`, written by hand."""
    found = {
        "encoder.input_projection.weight": "stream:produces in:consumes",
        "encoder.input_projection.bias": "stream:produces",
        "output.weight": "out:produces stream:consumes",
        "output.bias": "out:produces",
    }
    for i in range(layers):
        block = {"final_norm.weight": "stream:gain", "final_norm.bias": "stream:bias"}
        for half in ("feed_forward1", "feed_forward2"):
            block |= {
                f"{half}.norm.weight": "stream:gain",
                f"{half}.norm.bias": "stream:bias",
                f"{half}.linear1.weight": f"{half}:produces stream:consumes",
                f"{half}.linear1.bias": f"{half}:produces",
                f"{half}.linear2.weight": f"stream:produces {half}:consumes",
                f"{half}.linear2.bias": "stream:produces",
            }
        block |= {
            "attention.norm.weight": "stream:gain",
            "attention.norm.bias": "stream:bias",
            "attention.query.weight": "(heads qk):produces stream:consumes",
            "attention.query.bias": "(heads qk):produces",
            "attention.key.weight": "(heads qk):produces stream:consumes",
            "attention.key.bias": "(heads qk):produces",
            "attention.value.weight": "(heads v):produces stream:consumes",
            "attention.value.bias": "(heads v):produces",
            "attention.position.weight": "(heads qk):produces position:consumes",
            "attention.pos_bias_u": "heads:produces qk:produces",
            "attention.pos_bias_v": "heads:produces qk:produces",
            "attention.out.weight": "stream:produces (heads v):consumes",
            "attention.out.bias": "stream:produces",
            "convolution.norm.weight": "stream:gain",
            "convolution.norm.bias": "stream:bias",
            "convolution.pointwise1.weight": "[c|c]:produces stream:consumes",
            "convolution.pointwise1.bias": "[c|c]:produces",
            "convolution.depthwise.weight": "c:gain 1 kernel",
            "convolution.depthwise.bias": "c:produces",
            "convolution.batch_norm.weight": "c:gain",
            "convolution.batch_norm.bias": "c:bias",
            "convolution.batch_norm.running_mean": "c:mean",
            "convolution.batch_norm.running_var": "c:variance",
            "convolution.pointwise2.weight": "stream:produces c:consumes",
            "convolution.pointwise2.bias": "stream:produces",
        }
        for name, text in block.items():
            for label in ("feed_forward1", "feed_forward2", "heads", "qk", "v", "c", "kernel"):
                text = " ".join(_numbered(word, label, i) for word in text.split(" "))
            found[f"encoder.layers.{i}.{name}"] = text
    return found


def _numbered(word: str, label: str, layer: int) -> str:
    return re.sub(rf"(?<![\w.]){label}(?![\w.])", f"{label}.{layer}", word)
