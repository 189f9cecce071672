"""For tests of growth: assertions and randomised models; `growkit.testing.strategies` needs hypothesis."""

from growkit.testing.checks import assert_function_preserved, assert_unchanged
from growkit.testing.randomise import randomise

__all__ = ["assert_function_preserved", "assert_unchanged", "randomise"]
