"""Operators called by hand, without sample inputs; each checks its result and gives a report."""

from growkit.ops.conformer import widen_conformer
from growkit.ops.depth import deepen
from growkit.ops.pairs import widen_conv, widen_linear

__all__ = ["deepen", "widen_conformer", "widen_conv", "widen_linear"]
