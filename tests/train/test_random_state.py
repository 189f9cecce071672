"""Generators go on as they would have."""

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from growkit.checkpoint import load, save
from growkit.errors import EngineError
from growkit.train import random_state


def draws() -> list[Any]:
    """Of every kind, also those that keep half of a pair for later."""
    return [
        random.random(),
        random.gauss(0, 1),
        np.random.rand(3).tolist(),
        np.random.standard_normal(),
        torch.rand(3).tolist(),
        torch.randn(1).tolist(),
        torch.nn.functional.dropout(torch.ones(20), 0.5).tolist(),
    ]


@pytest.mark.parametrize("before", range(3))
def test_every_draw_after_it_is_as_it_was(before: int, tmp_path: Path) -> None:
    for _ in range(before):
        draws()
    random.gauss(0, 1)
    np.random.standard_normal()
    state = random_state.capture()
    expected = [draws(), draws()]
    assert expected[0] != expected[1]
    save(tmp_path / "a", state, kind="random")
    for again in (state, load(tmp_path / "a")):
        assert random_state.restore(again) == []
        assert [draws(), draws()] == expected


@pytest.mark.gpu
def test_draws_on_the_device_too(tmp_path: Path) -> None:
    torch.rand(1, device="cuda")
    save(tmp_path / "a", random_state.capture(), kind="random")
    expected = torch.rand(5, device="cuda")
    assert random_state.restore(load(tmp_path / "a")) == []
    assert torch.equal(torch.rand(5, device="cuda"), expected)


def test_generators_that_are_not_there_are_named() -> None:
    state = random_state.capture() | {"tpu": 3}
    expected = draws()
    assert random_state.restore(state) == ["tpu"]
    assert draws() == expected


@pytest.mark.parametrize(
    "wrong", [{"torch": torch.zeros(3)}, {"python": (3, (), None)}, {"numpy": {"bit_generator": "x"}}]
)
def test_a_wrong_state_changes_nothing(wrong: dict[str, Any]) -> None:
    now = random_state.capture()
    expected = draws()
    random_state.restore(now)
    other = {"python": random.Random(3).getstate()}
    with pytest.raises(EngineError, match="a random state that cannot be restored"):
        random_state.restore(other | wrong)
    assert draws() == expected


def test_numpy_is_not_imported_for_it() -> None:
    code = """
import sys
sys.modules["numpy"] = None
import torch
del sys.modules["numpy"]
from growkit.train import random_state
state = random_state.capture()
assert set(state) == {"python", "torch"}, set(state)
assert random_state.restore(state | {"numpy": {}}) == ["numpy"]
assert "numpy" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
