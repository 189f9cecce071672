"""Image models of transformers: their axes, written by hand."""

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
    projections,
)

pytestmark = pytest.mark.slow

POINT = (1, 1)


def _vit() -> Layouts:
    found = {
        "vit.embeddings.cls_token": "1 1 m:produces",
        "vit.embeddings.position_embeddings": "1 patches:produces m:produces",
        **conv("vit.embeddings.patch_embeddings.projection", "m", "in"),
        **norm("vit.layernorm", "m"),
        **linear("classifier", "out", "m"),
    }
    for layer in ("vit.layers.0", "vit.layers.1"):
        attention = f"{layer}.attention"
        found |= {
            **projections(f"{attention}.{{}}_proj", attention, "m"),
            **linear(f"{attention}.o_proj", "m", f"({attention} {attention}.v)"),
            **norm(f"{layer}.layernorm_before", "m"),
            **norm(f"{layer}.layernorm_after", "m"),
            **linear(f"{layer}.mlp.fc1", f"{layer}.hidden", "m"),
            **linear(f"{layer}.mlp.fc2", "m", f"{layer}.hidden"),
        }
    return found


def _convnext() -> Layouts:
    stages = "convnext.encoder.stages"
    found = {
        **conv("convnext.embeddings.patch_embeddings", "a", "in"),
        **norm("convnext.embeddings.layernorm", "a"),
        **norm(f"{stages}.1.downsampling_layer.0", "a"),
        **conv(f"{stages}.1.downsampling_layer.1", "b", "a"),
        **norm("convnext.layernorm", "b"),
        **linear("classifier", "out", "b"),
    }
    for layer, m in ((f"{stages}.0.layers.0", "a"), (f"{stages}.1.layers.0", "b"), (f"{stages}.1.layers.1", "b")):
        found |= {
            f"{layer}.layer_scale_parameter": f"{m}:gain",
            **depthwise(f"{layer}.dwconv", m),
            **norm(f"{layer}.layernorm", m),
            **linear(f"{layer}.pwconv1", f"{layer}.hidden", m),
            **linear(f"{layer}.pwconv2", m, f"{layer}.hidden"),
        }
    return found


def _convolved(name: str, out: str, read: str, kernel: tuple[int, int] = POINT) -> Layouts:
    return conv(f"{name}.convolution", out, read, kernel, bias=False) | batch_norm(f"{name}.normalization", out)


def _regnet() -> Layouts:
    stages = "regnet.encoder.stages"
    found = _convolved("regnet.embedder.embedder", "a", "in", (3, 3)) | linear("classifier.1", "out", "c")
    streams = {"0.layers.0": ("b", "a"), "1.layers.0": ("c", "b"), "1.layers.1": ("c", "c")}
    for place, (out, read) in streams.items():
        layer = f"{stages}.{place}"
        groups, entering, leaving = (f"{layer}.{axis}" for axis in ("groups", "entering", "leaving"))
        grouped = f"{layer}.layer.1.convolution"
        found |= {
            **(_convolved(f"{layer}.shortcut", out, read) if out != read else {}),
            **_convolved(f"{layer}.layer.0", f"({groups} {entering})", read),
            **_convolved(f"{layer}.layer.1", f"({groups} {leaving})", entering, (3, 3)),
            f"{grouped}.weight": f"({groups}:gain {leaving}:produces) {entering}:consumes {layer}.y {layer}.x",
            **conv(f"{layer}.layer.2.attention.0", f"{layer}.squeezed", f"({groups} {leaving})", POINT),
            **conv(f"{layer}.layer.2.attention.2", f"({groups} {leaving})", f"{layer}.squeezed", POINT),
            **_convolved(f"{layer}.layer.3", out, f"({groups} {leaving})"),
        }
    return found


WRITTEN = families(("ViT", _vit()), ("ConvNeXt", _convnext()), ("RegNet Y", _regnet()))


@pytest.mark.parametrize(("name", "written"), WRITTEN)
def test_axes_are_those_written_by_hand(name: str, written: Layouts) -> None:
    check_entry(name, written)
