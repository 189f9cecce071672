"""Every error that growkit raises on purpose.

Each says three things: what was given, what is allowed, what to do next.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(given: str, known: Iterable[str], most: int = 1) -> list[str]:
    """The known names closest in spelling, nearest first; none where none is close."""
    return get_close_matches(given, sorted(known), most)


class GrowkitError(Exception):
    """An error in three parts: `given`, `allowed`, `next_step`."""

    def __init__(self, given: str, allowed: str, next_step: str):
        self.given, self.allowed, self.next_step = given, allowed, next_step
        super().__init__(f"{given}\n  allowed: {allowed}\n  next step: {next_step}")

    def __reduce__(self) -> tuple[type[GrowkitError], tuple[str, str, str]]:
        return type(self), (self.given, self.allowed, self.next_step)


class PatternError(GrowkitError):
    """A layout text that cannot be read."""


class LayoutError(GrowkitError):
    """A declared layout that does not fit the tensors, or contradicts what was traced."""


class MapError(GrowkitError):
    """An axis map that breaks its law, or that cannot be made for these sizes."""


class NameLookupError(GrowkitError):
    """An unknown name, or a name that could mean unrelated axes."""


class AxisLockedError(GrowkitError):
    """An axis that cannot grow."""


class SizeError(GrowkitError):
    """A size that cannot be reached: shrinking, not a whole number, not admitted by a constraint."""


class TieError(GrowkitError):
    """Axes tied by a shared number that would grow to different sizes."""


class PlanError(GrowkitError):
    """A plan that cannot be read, written, or applied to this model."""


class InputsError(GrowkitError):
    """Example inputs that the model does not accept, or a model that cannot be traced."""


class OptimizerError(GrowkitError):
    """An optimizer without exact rules, or one that does not belong to the model."""


class DepthError(GrowkitError):
    """A container into which no identity block can be inserted."""


class VerificationError(GrowkitError):
    """The grown model does not compute what the model computed before."""


class GrowthInterrupted(GrowkitError):
    """A growth without rollback failed after the first tensor was replaced."""


class SettingsError(GrowkitError):
    """An unknown setting, a setting of the wrong type, or settings that contradict each other."""


class MissingLibraryError(GrowkitError):
    """A library that is not installed."""


class EngineError(GrowkitError):
    """A training loop that is used in a way that it does not allow."""


class CheckpointError(GrowkitError):
    """A checkpoint that cannot be written, or one that is damaged, foreign or too new to be read."""
