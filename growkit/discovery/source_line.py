"""The line of code at which a run is."""

from __future__ import annotations

import sys
from pathlib import Path

_SKIPPED = ("torch.", "einops.", "growkit.discovery.")


def source_line() -> str:
    """File name and number of the innermost line outside of torch, einops and discovery itself."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_SKIPPED):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
