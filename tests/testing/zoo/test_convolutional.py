"""Convolutional networks: their axes, written by hand."""

from __future__ import annotations

import pytest

from growkit.discovery.discover import discover
from growkit.testing.zoo import ZOO
from tests.testing.zoo.layers import (
    Layouts,
    batch_norm,
    check_entry,
    conv,
    depthwise,
    families,
    linear,
    norm,
    statistics,
    transposed,
)  # fmt: skip

POINT = (1, 1)

RESIDUAL: Layouts = {
    **conv("0", "a", "in", bias=False),
    **batch_norm("1", "a"),
    **conv("4.conv1", "inside", "a", bias=False),
    **batch_norm("4.norm1", "inside"),
    **conv("4.conv2", "a", "inside", bias=False),
    **batch_norm("4.norm2", "a"),
    **conv("5.conv1", "inside2", "a", bias=False),
    **batch_norm("5.norm1", "inside2"),
    **conv("5.conv2", "b", "inside2", bias=False),
    **batch_norm("5.norm2", "b"),
    **conv("5.shortcut.0", "b", "a", POINT, bias=False),
    **batch_norm("5.shortcut.1", "b"),
    **linear("8", "out", "b"),
}
U_NET: Layouts = {
    **conv("down1.0", "a", "in"),
    **batch_norm("down1.1", "a"),
    **conv("down2.0", "b", "a"),
    **norm("down2.1", "b"),
    **conv("bottom", "c", "b"),
    **transposed("up2", "d", "c", (2, 2)),
    **conv("merge2", "e", "[d|b]"),
    **conv("merge1", "f", "[e|a]"),
    **conv("leave", "out", "f", POINT),
}
WRITTEN = families(
    (
        "convolutions",
        {
            **conv("0", "a", "in"),
            **batch_norm("1", "a"),
            **conv("3", "b", "a", bias=False),
            **batch_norm("4", "b"),
            **linear("8", "out", "b"),
        },
    ),
    (
        "convolutions flattened",
        {
            **conv("0", "a", "in"),
            "1.weight": "a:gain",
            **conv("3", "b", "a"),
            **linear("7", "c", "(b height width)"),
            "8.weight": "1",
            **linear("9", "out", "c"),
        },
    ),
    (
        "convolutions over time",
        {
            **conv("0", "a", "in", (3,)),
            **depthwise("3", "a", (3,)),
            **conv("4", "b", "a", (1,)),
            **batch_norm("5", "b"),
            **linear("9", "out", "(b time)"),
        },
    ),
    (
        "convolutions over volumes",
        {
            **conv("0", "a", "in", (3, 3, 3)),
            **batch_norm("1", "a"),
            **conv("4", "b", "a", (1, 1, 1)),
            **norm("5", "b"),
            **linear("10", "out", "b"),
        },
    ),
    (
        "depthwise convolutions",
        {
            **conv("0", "a", "in", POINT),
            **depthwise("1", "a", bias=False),
            "3.weight": "(a:gain many:produces) 1 height width",
            "3.bias": "(a many):produces",
            **batch_norm("4", "(a many)"),
            **conv("6", "out", "(a many)", POINT),
        },
    ),
    (
        "grouped convolutions",
        {
            **conv("0", "(groups a)", "in", POINT),
            "2.weight": "(groups:gain b:produces) a:consumes height width",
            "2.bias": "(groups b):produces",
            **batch_norm("3", "(groups b)"),
            **conv("5", "out", "(groups b)", POINT),
        },
    ),
    (
        "transposed convolutions",
        {
            **conv("0", "(groups a)", "in", POINT),
            "1.weight": "(groups:gain a:consumes) b:produces height width",
            "1.bias": "(groups b):produces",
            **transposed("3", "c", "(groups b)", bias=False),
            **batch_norm("4", "c"),
            **depthwise("5", "c"),
            **transposed("7", "out", "c", (2, 2)),
        },
    ),
    (
        "transposed convolutions over time and volumes",
        {
            **linear("enter", "(a time)", "in"),
            **transposed("over_time", "b", "a", (3,)),
            **transposed("over_volume", "c", "b", (2, 2, 2)),
            **conv("leave", "out", "c", (1, 1, 1)),
        },
    ),
    (
        "group norms",
        {
            **conv("0", "(groups inside)", "in"),
            **norm("1", "(groups inside)"),
            **conv("3", "a", "(groups inside)", POINT),
            **norm("4", "a"),
            **conv("6", "b", "a", POINT),
            **conv("9", "out", "b", POINT),
        },
    ),
    (
        "instance norms",
        {
            **conv("0", "a", "in"),
            **norm("1", "a"),
            **conv("3", "b", "a", POINT),
            **conv("6", "c", "b", POINT),
            **batch_norm("7", "c"),
            **statistics("8", "c"),
            **conv("9", "out", "c", POINT),
        },
    ),
    ("residual convolutions", RESIDUAL),
    ("U-Net", U_NET),
    (
        "concatenated branches",
        {
            **conv("a", "a", "in"),
            **conv("b", "b", "in", POINT),
            **batch_norm("norm", "[a|b]"),
            **conv("c", "c", "[a|b]"),
            **depthwise("mix", "[a|b|c]"),
            **linear("leave", "out", "[a|b|c]"),
        },
    ),
    (
        "shuffles",
        {
            **conv("0", "(a places)", "in"),
            **conv("3", "b", "a", POINT),
            **conv("5", "(groups inside)", "(b places2)", POINT),
            **conv("8", "out", "(inside groups)", POINT),
        },
    ),
)


@pytest.mark.parametrize(("name", "written"), WRITTEN)
def test_axes_are_those_written_by_hand(name: str, written: Layouts) -> None:
    check_entry(name, written)


NUMBERS = {
    "convolutions": {"0.out_channels": 5, "1.num_features": 5, "3.in_channels": 5, "8.in_features": 7},
    "convolutions flattened": {"1.num_parameters": 3, "7.in_features": 30, "9.in_features": 7},
    "depthwise convolutions": {"1.groups": 3, "3.groups": 3, "3.in_channels": 3, "3.out_channels": 6},
    "grouped convolutions": {"2.groups": 3, "2.in_channels": 6, "2.out_channels": 15, "3.num_features": 15},
    "transposed convolutions": {"1.groups": 3, "1.in_channels": 6, "1.out_channels": 15, "5.in_channels": 7},
    "group norms": {"1.num_groups": 3, "1.num_channels": 6, "4.num_groups": 5, "7.num_channels": 7},
    "instance norms": {"1.num_features": 3, "4.num_features": 5, "7.num_features": 7, "8.num_features": 7},
    "concatenated branches": {"norm.num_features": 5, "mix.groups": 10, "mix.in_channels": 10},
    "shuffles": {"6.groups": 2, "8.in_channels": 6},
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_the_modules_keep_follow(name: str) -> None:
    model, inputs = ZOO[name].make()
    kept = {number.path: number.value for number in discover(model, inputs).numbers}
    assert NUMBERS[name].items() <= kept.items()
