"""The table of op rules: one small function an op, keyed by the op itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch._ops import OpOverloadPacket

from growkit.discovery.call import Call, Known
from growkit.errors import SettingsError

Rule = Callable[[Call], Known | list[Known] | None]
"""Says what is known about the result, one `Known` a tensor. None leaves results without known axes."""

_R = TypeVar("_R", bound=Rule)

_RULES: dict[OpOverloadPacket, Rule] = {}


def register(*ops: Any) -> Callable[[_R], _R]:
    """Makes a function the rule of these ops (overload packets such as `torch.ops.aten.add`).

    Raises:
        SettingsError: not an overload packet, or an op that has a rule.
    """

    def enter(rule: _R) -> _R:
        for op in ops:
            if not isinstance(op, OpOverloadPacket) or op in _RULES:
                raise SettingsError(
                    f"a rule for {op}" + ("" if isinstance(op, OpOverloadPacket) else f", a {type(op).__name__}"),
                    "one rule an op, keyed by the overload packet, such as torch.ops.aten.add",
                    "register the packet of an op that has no rule yet",
                )
            _RULES[op] = rule
        return rule

    return enter


WHOLE = {
    "torch.nn.utils.parametrizations._SpectralNorm": "a parameter is divided by its largest singular value, which "
    "copies and new units change",
    "torch.nn.utils.parametrizations._Orthogonal": "a parameter is made orthogonal, which its rows and columns "
    "would not be with copies or zeros",
}
"""Modules that compute a parameter from all entries of another one, and why its axes cannot grow."""


def rule_of(op: OpOverloadPacket) -> Rule | None:
    """The rule of an op. An op in place (`add_`) has that of the plain one unless it has its own."""
    if op in _RULES:
        return _RULES[op]
    name = op.__name__
    if name.endswith("_") and not name.startswith("_") and str(op).startswith("aten."):
        plain = getattr(torch.ops.aten, name[:-1], None)
        return _RULES.get(plain) if plain else None
    return None
