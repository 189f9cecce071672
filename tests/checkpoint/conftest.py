"""A small state with all that a file has to hold."""

from typing import Any

import pytest
import torch


@pytest.fixture
def state() -> dict[str, Any]:
    weight = torch.arange(6.0).reshape(2, 3)
    return {
        "model": {"embedding": weight, "head": weight, "norm": torch.ones(2, dtype=torch.bfloat16)},
        "optimizers": {"main": {0: {"step": torch.tensor(3.0), "exp_avg": torch.zeros(2, 3)}}},
        "progress": {"epoch": 2, "loss": float("inf")},
        "carry": (torch.zeros(0, 2), None),
    }
