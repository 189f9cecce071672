from __future__ import annotations

import logging
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from growkit.growth.constructed import Difference, construct, differences, facts_of, load
from tests.growth.configured import Net, Tabled, built, sizes
from tests.growth.nets import rows


class Noisy(nn.Module):
    """Draws, warns, logs, ties, and computes a buffer of its own."""

    def __init__(self, width: int):
        super().__init__()
        warnings.warn("made", stacklevel=1)
        logging.getLogger("noisy").error("made")
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)
        self.second.weight = self.first.weight
        self.register_buffer("table", torch.arange(3) / width, persistent=False)
        self.scale, self.width = width**-0.5, width

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x)) * self.scale


def test_parameters_have_no_memory_and_buffers_have_values(caplog: pytest.LogCaptureFixture) -> None:
    state = torch.get_rng_state()
    model: Any = construct(Noisy, lambda: 4)
    assert all(p.is_meta for p in model.parameters())
    assert model.first.weight is model.second.weight
    assert model.table.tolist() == [0.0, 0.25, 0.5]
    assert torch.equal(torch.get_rng_state(), state)
    assert not caplog.records
    logging.getLogger("noisy").error("again")
    assert len(caplog.records) == 1
    assert not nn.Linear(2, 2).weight.is_meta


def test_everything_is_put_back_if_the_class_raises() -> None:
    with pytest.raises(TypeError):
        construct(Noisy, lambda: "four")
    assert not nn.Linear(2, 2).weight.is_meta


def test_what_differs() -> None:
    four, nine = (facts_of(construct(Noisy, lambda size=size: size), [("width", None)]) for size in (4, 9))
    assert differences(four, four) == []
    found = {d.name: str(d) for d in differences(four, nine)}
    assert found["first.weight"] == "first.weight would be 9x9, and is 4x4"
    assert found["scale"] == "scale would be 0.333333, and is 0.5"
    assert found["width"] == "width would be 9, and is 4"
    assert found["table"] == "table would be computed anew, to other values"
    assert "width" not in facts_of(construct(Noisy, lambda: 4), [])


def test_what_is_missing_or_new() -> None:
    assert [str(d) for d in differences({"a": (1,)}, {"b": (2,)})] == ["a would be missing", "b would be new"]


def test_sizes_of_a_difference() -> None:
    assert Difference("w", (2, 3), (2, 5)).sizes == [(3, 5)]
    assert Difference("w", (2, 3), (2, 3, 5)).sizes == []
    assert Difference("eps", 0.5, 0.25).sizes == [(0.5, 0.25)]


def test_a_state_is_shared() -> None:
    model = built(Tabled)
    model.blocks[0].eval()
    other = load(construct(Tabled, sizes), model)
    torch.testing.assert_close(other(rows()), model(rows()), rtol=0, atol=0)
    assert other.get_parameter("first.weight").data_ptr() == model.first.weight.data_ptr()
    assert [m.training for m in other.modules()] == [m.training for m in model.modules()]
    assert other.get_buffer("table").dtype == model.table.dtype


def test_another_state_does_not_fit() -> None:
    with pytest.raises(RuntimeError, match="size mismatch"):
        load(construct(Net, lambda: sizes(width=8)), built(Net))
