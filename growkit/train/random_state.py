"""The state of every random number generator that a run may draw from without being handed it."""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from typing import Any

import torch

from growkit.errors import EngineError


def capture() -> dict[str, Any]:
    """States of the generators of Python, torch (CPU; CUDA and MPS where they are in use) and NumPy (if imported).

    They are copies: later draws do not change them. Generators that someone made for himself are not among them.
    """
    state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if numpy := sys.modules.get("numpy"):
        state["numpy"] = numpy.random.get_state(legacy=False)
    if torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state_all()
    if torch.backends.mps.is_available():
        state["mps"] = torch.mps.get_rng_state()
    return state


def restore(state: Mapping[str, Any]) -> list[str]:
    """Brings every generator back to a state that `capture` returned; gives those that are not there.

    Raises: EngineError for what `capture` did not return; nothing is changed then.
    """
    missing = [name for name in state if name not in _here()]
    before = capture()
    try:
        for name in [name for name in state if name not in missing]:
            _restore_one(name, state[name])
    except (TypeError, ValueError, KeyError, RuntimeError) as error:
        for name, value in before.items():
            _restore_one(name, value)
        raise EngineError(
            f"a random state that cannot be restored: {error}",
            "what `random_state.capture` returned",
            "use the state of another checkpoint",
        ) from error
    devices = torch.cuda.device_count() if "cuda" in _here() else 0
    if "cuda" in state and 0 < devices < len(state["cuda"]):
        missing += [f"cuda:{index}" for index in range(devices, len(state["cuda"]))]
    return missing


def _here() -> set[str]:
    there = {"numpy": "numpy" in sys.modules, "cuda": torch.cuda.is_available()}
    there["mps"] = torch.backends.mps.is_available()
    return {"python", "torch", *(name for name, is_there in there.items() if is_there)}


def _restore_one(name: str, value: Any) -> None:
    if name == "python":
        random.setstate(value)
    elif name == "torch":
        torch.set_rng_state(value)
    elif name == "numpy":
        sys.modules["numpy"].random.set_state(value)
    elif name == "cuda":
        torch.cuda.set_rng_state_all(value[: torch.cuda.device_count()])
    elif name == "mps":
        torch.mps.set_rng_state(value)
