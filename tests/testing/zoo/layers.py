"""Layouts of torch's layers, written by hand, to put those of whole models together."""

from __future__ import annotations

import pytest

from growkit.discovery.discover import discover
from growkit.testing.zoo import FOREIGN, ZOO
from tests.discovery.written import check_layouts

Layouts = dict[str, str]


def check_entry(name: str, written: Layouts, unreached: tuple[str, ...] = ()) -> None:
    """The model has the written layouts, at odd sizes and with all sizes equal; `unreached`: what it never reads."""
    for equal_sizes in (False, True):
        entry = ZOO[name] if name in ZOO else FOREIGN[name]
        model, inputs = entry.make(equal_sizes)
        table = discover(model, inputs)
        check_layouts(table, written)
        assert table.unreached == unreached


def families(*written: tuple[str, Layouts]) -> list[object]:
    """Parameters of a test: name of the entry, its layouts."""
    return [pytest.param(name, layouts, id=name) for name, layouts in written]


def linear(name: str, out: str, read: str, bias: bool = True) -> Layouts:
    """`'out read'`"""
    return _weight(name, f"{out}:produces {read}:consumes", out if bias else None)


def conv(name: str, out: str, read: str, kernel: tuple[int, ...] = (3, 3), bias: bool = True) -> Layouts:
    """`'out read *kernel'`; `kernel` 1 is no axis."""
    return _weight(name, f"{out}:produces {read}:consumes {_places(name, kernel)}", out if bias else None)


def transposed(name: str, out: str, read: str, kernel: tuple[int, ...] = (3, 3), bias: bool = True) -> Layouts:
    """`'read out *kernel'`"""
    return _weight(name, f"{read}:consumes {out}:produces {_places(name, kernel)}", out if bias else None)


def depthwise(name: str, channels: str, kernel: tuple[int, ...] = (3, 3), bias: bool = True) -> Layouts:
    """`'channels 1 *kernel'`"""
    return _weight(name, f"{channels}:gain 1 {_places(name, kernel)}", channels if bias else None)


def norm(name: str, axis: str) -> Layouts:
    """Gain and bias."""
    return {f"{name}.weight": f"{axis}:gain", f"{name}.bias": f"{axis}:bias"}


def statistics(name: str, axis: str) -> Layouts:
    """Running mean and variance."""
    return {f"{name}.running_mean": f"{axis}:mean", f"{name}.running_var": f"{axis}:variance"}


def batch_norm(name: str, axis: str) -> Layouts:
    """Gain, bias and running statistics."""
    return norm(name, axis) | statistics(name, axis)


def recurrent(name: str, gates: int, hidden: str, read: str, layer: str = "l0", bias: bool = True) -> Layouts:
    """One direction of one layer: `'[hidden|hidden|...] read'`, `'[hidden|hidden|...] hidden'`."""
    stacked = f"[{'|'.join([hidden] * gates)}]" if gates > 1 else hidden
    found = {
        f"{name}.weight_ih_{layer}": f"{stacked}:produces {read}:consumes",
        f"{name}.weight_hh_{layer}": f"{stacked}:produces {hidden}:consumes",
    }
    biases = {f"{name}.bias_{which}_{layer}": f"{stacked}:produces" for which in ("ih", "hh")}
    return found | biases if bias else found


def packed_attention(name: str, width: str) -> Layouts:
    """`'[(heads k)|(heads k)|(heads v)] width'`, whether of one tensor or of several."""
    scores, values = f"({name}.h {name}.k)", f"({name}.h {name}.v)"
    projected = f"[{scores}|{scores}|{values}]"
    return {
        f"{name}.in_proj_weight": f"{projected}:produces {width}:consumes",
        f"{name}.in_proj_bias": f"{projected}:produces",
        **linear(f"{name}.out_proj", width, values),
    }


def projections(name: str, heads: str, read: str, read_by_keys: str | None = None) -> Layouts:
    """Query, key and value, named by `{name}{q,k,v}`, of a head dim for scores and one for values."""
    keys = read_by_keys or read
    scores, values = f"({heads} {heads}.k)", f"({heads} {heads}.v)"
    return {
        **linear(name.format("q"), scores, read),
        **linear(name.format("k"), scores, keys),
        **linear(name.format("v"), values, keys),
    }


def wav2vec2_front(m: str, bias: bool = False, every_norm: bool = False) -> Layouts:
    """Two convolutions over a waveform, the projection into the stream, the norm of the encoder."""
    features = "feature_extractor.conv_layers"
    return {
        "masked_spec_embed": "unused",
        **conv(f"{features}.0.conv", "a", "wave", (10,), bias),
        **norm(f"{features}.0.layer_norm", "a"),
        **conv(f"{features}.1.conv", "b", "a", (3,), bias),
        **(norm(f"{features}.1.layer_norm", "b") if every_norm else {}),
        **norm("feature_projection.layer_norm", "b"),
        **linear("feature_projection.projection", m, "b"),
        **norm("encoder.layer_norm", m),
    }


def _weight(name: str, weight: str, bias: str | None) -> Layouts:
    found = {f"{name}.weight": weight}
    return found | {f"{name}.bias": f"{bias}:produces"} if bias else found


def _places(name: str, kernel: tuple[int, ...]) -> str:
    return " ".join(f"{name}.place{d}" if size > 1 else "1" for d, size in enumerate(kernel))
