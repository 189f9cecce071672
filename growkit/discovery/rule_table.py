"""The table of op rules: one small function an op, keyed by the op itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import torch
from torch._ops import OpOverload, OpOverloadPacket

from growkit.discovery.call import Call, Known
from growkit.errors import SettingsError

Rule = Callable[[Call], Known | list[Known] | None]
"""Says what is known about the result, one `Known` a tensor. None leaves results without known axes."""

_R = TypeVar("_R", bound=Rule)

_RULES: dict[OpOverloadPacket, Rule] = {}
_BY_TAG: dict[torch.Tag, Rule] = {}


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
        rule_of.cache_clear()
        return rule

    return enter


WHOLE = {
    "torch.nn.utils.parametrizations._SpectralNorm": "a parameter is divided by its largest singular value, which "
    "copies and new units change",
    "torch.nn.utils.parametrizations._Orthogonal": "a parameter is made orthogonal, which its rows and columns "
    "would not be with copies or zeros",
}
"""Modules that compute a parameter from all entries of another one, and why its axes cannot grow."""


def register_tagged(tag: torch.Tag) -> Callable[[_R], _R]:
    """Makes a function the rule of the ops that torch, or who wrote them, gave this tag, and that have no other."""

    def enter(rule: _R) -> _R:
        _BY_TAG[tag] = rule
        rule_of.cache_clear()
        return rule

    return enter


@cache
def rule_of(op: OpOverload) -> Rule | None:
    """The rule of an op. An op in place (`add_`) has that of the plain one unless it has its own."""
    same = (op, *_out_of_place(op))
    for one in same:
        if rule := _RULES.get(one.overloadpacket):
            return rule
    return next((_BY_TAG[tag] for one in same for tag in one.tags if tag in _BY_TAG), None)


def _out_of_place(op: OpOverload) -> list[OpOverload]:
    name = op.overloadpacket.__name__
    if op.namespace != "aten" or name.startswith("_") or not name.endswith("_"):
        return []
    plain = getattr(torch.ops.aten, name[:-1], None)
    if plain is None:
        return []
    return [getattr(plain, op._overloadname, getattr(plain, plain.overloads()[0]))]
