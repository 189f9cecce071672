"""Refusals name the line of the user's code."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from einops import rearrange
from torch import Tensor, nn

from growkit.discovery.discover import discover
from tests.discovery.models import Small


def viewed(m: nn.Module, x: Tensor) -> Tensor:
    return m.a(x).view(5, 2, 3).transpose(1, 2)  # line A


def sliced(m: nn.Module, x: Tensor) -> Tensor:
    return m.a(x)[..., :2]  # line B


def by_einops(m: nn.Module, x: Tensor) -> Tensor:
    return rearrange(m.a(x), "b (h d) -> b d h", h=2)  # line C


def inside_torch(m: nn.Module, x: Tensor) -> Tensor:
    return nn.Unflatten(-1, (2, 3))(m.a(x)).transpose(1, 2)  # line D


@pytest.mark.parametrize(
    ("use", "mark"), [(viewed, "A"), (sliced, "B"), (by_einops, "C"), (inside_torch, "D")], ids=list("ABCD")
)
def test_a_number_written_in_the_code_is_refused_with_its_line(use: object, mark: str) -> None:
    lines = Path(__file__).read_text().splitlines()
    (number,) = [i for i, line in enumerate(lines, 1) if line.endswith(f"# line {mark}")]
    table = discover(Small(use, a=nn.Linear(4, 6)), torch.randn(5, 4).double())
    reasons = [(lock.reason, lock.where) for axis in table for lock in axis.locks]
    (where,) = {where for reason, where in reasons if reason.startswith("its size 2 is written in the code")}
    assert where.endswith(f", test_source_line.py:{number}")
