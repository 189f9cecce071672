"""`math.sqrt` where it is imported by its name."""

from __future__ import annotations

import math
import sys
from math import sqrt
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from growkit.discovery import square_roots
from growkit.discovery.square_roots import followed_square_roots


def test_square_roots_are_followed_inside_only() -> None:
    own = math.sqrt
    with followed_square_roots(lambda x: "root" if x == 9 else None):
        assert (math.sqrt(9), math.sqrt(4)) == ("root", 2.0)
        assert sqrt(9) == "root", "by the name of this module"
    assert math.sqrt is sqrt is own


def test_modules_that_are_loaded_when_they_are_asked_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lazy(ModuleType):
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(name)

    monkeypatch.setitem(sys.modules, "lazy", Lazy("lazy"))
    with followed_square_roots(lambda x: None):
        assert math.sqrt(4) == 2.0


def test_modules_that_change_and_come_later_are_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user's own at every time, installed ones when they are there first."""
    mine, theirs, plain = ModuleType("mine"), ModuleType("theirs"), ModuleType("plain")
    mine.__file__ = str(tmp_path / "mine.py")
    theirs.__file__ = plain.__file__ = str(Path(square_roots._INSTALLED[0]) / "theirs.py")
    monkeypatch.setattr(square_roots, "_modules", square_roots._Modules())
    monkeypatch.setitem(sys.modules, "mine", mine)
    with followed_square_roots(lambda x: "root"):
        assert "mine" not in square_roots._modules.without
    mine.sqrt = sqrt
    theirs.sqrt = sqrt
    monkeypatch.setitem(sys.modules, "theirs", theirs)
    monkeypatch.setitem(sys.modules, "plain", plain)
    for _ in range(2):
        with followed_square_roots(lambda x: "root"):
            assert mine.sqrt(9) == theirs.sqrt(9) == "root"
            assert {"theirs", "plain"} & square_roots._modules.without == {"plain"}
    assert mine.sqrt is theirs.sqrt is math.sqrt


def test_what_is_called_sqrt_and_is_another_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = ModuleType("mine")
    mine.sqrt = lambda value: "mine"
    monkeypatch.setitem(sys.modules, "mine", mine)
    with followed_square_roots(lambda x: "root"):
        assert mine.sqrt(9) == "mine"
