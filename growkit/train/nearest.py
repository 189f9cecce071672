"""The known name that a mistaken one probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest_name(given: str, known: Iterable[str]) -> str | None:
    """The known name closest in spelling, None where none is close."""
    matches = get_close_matches(given, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None
