"""For tests of growth: strategies, randomised models, assertions. Needs hypothesis."""

from growkit.testing.checks import assert_function_preserved, assert_unchanged
from growkit.testing.randomise import randomise
from growkit.testing.strategies import Case, Widening, conformers, deepenings, mlps, widenings

__all__ = [
    "Case",
    "Widening",
    "assert_function_preserved",
    "assert_unchanged",
    "conformers",
    "deepenings",
    "mlps",
    "randomise",
    "widenings",
]
