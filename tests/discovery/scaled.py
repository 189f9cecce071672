"""Nets of a few lines in which the mean square of an axis of 3 units, `a.weight[0]`, is used."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from growkit.axes.table import AxisTable
from growkit.discovery.discover import discover
from growkit.growth.plan import Plan
from growkit.growth.planning import make_plan
from growkit.testing import randomise
from tests.discovery.models import Small, X


def net(run: Callable[..., Any], **parts: Any) -> Small:
    """`run(net, x)` with `a`, `b`: linear layers 5 -> 3 -> 4; `g`: a gain of 3 units; `eps`."""
    gain = nn.Parameter(torch.ones(3))
    return randomise(Small(run, a=nn.Linear(5, 3), b=nn.Linear(3, 4), g=gain, eps=1e-2, **parts))


def rms(m: Any, x: Tensor, eps: float | None = None) -> Tensor:
    """The root mean square norm, without its gain."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + (m.eps if eps is None else eps))


def table(run: Callable[..., Any], **parts: Any) -> AxisTable:
    """The axes of such a net."""
    return discover(net(run, **parts), X)


def plan(run: Callable[..., Any], method: str, new: int, **parts: Any) -> Plan:
    """A growth of its axis."""
    found = table(run, **parts)
    return make_plan(found, {"a.weight[0]": new}, method=method, leave=found.unread)
