"""Tests of the numbers that modules keep for the reader."""

from __future__ import annotations

from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from growkit.axes.expressions import Leaf
from growkit.axes.patterns import show
from growkit.discovery.discover import discover
from growkit.errors import LayoutError
from growkit.growth.api import grow
from tests.discovery.models import Small, X, weight


def _kept(model: nn.Module, inputs: object) -> dict[str, tuple[int, str]]:
    return {n.path: (n.value, show([n.sizes[0]])) for n in discover(model, inputs).numbers if not n.read}


def test_torch_s_own_modules() -> None:
    def run(m: Small, ids: Tensor) -> Tensor:
        x = m.e(ids).transpose(1, 2)
        return m.l(m.n(m.d(m.c(x))).transpose(1, 2))

    model = Small(run, e=nn.Embedding(9, 5), c=nn.Conv1d(5, 4, 1), d=nn.Conv1d(4, 4, 3, groups=4),
                  n=nn.BatchNorm1d(4), l=nn.Linear(4, 2))  # fmt: skip
    assert _kept(model, torch.zeros(1, 7, dtype=torch.long)) == {
        "e.num_embeddings": (9, "e.weight[0]"),
        "e.embedding_dim": (5, "e.weight[1]"),
        "c.in_channels": (5, "e.weight[1]"),
        "c.out_channels": (4, "c.weight[0]"),
        "d.in_channels": (4, "c.weight[0]"),
        "d.out_channels": (4, "c.weight[0]"),
        "n.num_features": (4, "c.weight[0]"),
        "l.in_features": (4, "c.weight[0]"),
        "l.out_features": (2, "l.weight[0]"),
    }


def test_modules_whose_names_are_no_python_names() -> None:
    model = Small(lambda m, x: m.parts["in-out"](x), parts=nn.ModuleDict({"in-out": nn.Linear(5, 4)}))
    assert _kept(model, X) == {
        "parts.in-out.in_features": (5, "parts.in-out.weight[1]"),
        "parts.in-out.out_features": (4, "parts.in-out.weight[0]"),
    }


class Told(nn.Module):
    """Keeps sizes that its forward pass does not read."""

    growkit_sizes: ClassVar[dict[str, str]] = {"width": "layer.weight[0]", "heads": "layer.weight[0].0"}

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.width, self.heads = width, heads
        self.layer = nn.Linear(5, 6)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        return torch.relu(y.unflatten(-1, (self.heads, -1))).flatten(-2)


def test_a_class_tells_which_sizes_it_keeps() -> None:
    numbers = {n.path: n for n in discover(Told(6, 2).double(), X).numbers}
    assert show(numbers["width"].sizes) == "(layer.weight[0].0 layer.weight[0].1)"
    assert not numbers["width"].read
    assert show(numbers["heads"].sizes) == "layer.weight[0].0"
    assert numbers["heads"].read


def test_a_factor_of_one_unit_is_passed_over() -> None:
    assert "heads" not in {n.path for n in discover(Told(6, 1).double(), X).numbers}


def test_a_factor_beside_one_of_one_unit_is_the_whole_dim() -> None:
    numbers = {n.path: n for n in discover(Told(6, 6).double(), X).numbers}
    assert show(numbers["heads"].sizes) == "layer.weight[0]"


def test_a_wrong_statement_is_an_error() -> None:
    with pytest.raises(LayoutError) as caught:
        discover(Told(7, 2).double(), X)
    assert caught.value.given == (
        "Told.growkit_sizes says that width = 7 is the size of layer.weight[0], which is a dim of 6 units"
    )
    assert caught.value.next_step == "mend growkit_sizes of Told"


def test_a_place_that_does_not_exist_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Told, "growkit_sizes", {"width": "layer.wieght[0]"})
    with pytest.raises(LayoutError, match="which is no such dim"):
        discover(Told(6, 2).double(), X)


def test_an_adapter_around_a_linear_layer() -> None:
    """As that of PEFT: it keeps the sizes of the layer inside."""

    class LoraLayer(nn.Module):
        def __init__(self, base_layer: nn.Module):
            super().__init__()
            self.base_layer, self.lora_A, self.lora_B = base_layer, nn.Linear(5, 2), nn.Linear(2, 4)
            self.in_features, self.out_features = 5, 4

        def forward(self, x: Tensor) -> Tensor:
            return self.base_layer(x) + 0.5 * self.lora_B(self.lora_A(x))

    LoraLayer.__module__, LoraLayer.__qualname__ = "peft.tuners.lora.layer", "LoraLayer"
    kept = _kept(Small(lambda m, x: m.a(x), a=LoraLayer(nn.Linear(5, 4))), X)
    assert kept["a.out_features"] == (4, "a.base_layer.weight[0]")
    assert kept["a.in_features"] == (5, "a.base_layer.weight[1]")
    assert kept["a.lora_A.out_features"] == (2, "a.lora_A.weight[0]")


def test_layers_of_other_libraries_by_the_name_of_their_type() -> None:
    class Conv1D(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.nf, self.nx, self.weight = 6, 5, weight(5, 6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.weight

    Conv1D.__module__, Conv1D.__qualname__ = "transformers.pytorch_utils", "Conv1D"
    table = discover(nn.Sequential(Conv1D(), nn.Linear(6, 2)).double(), X)
    kept = {number.path: number.sizes for number in table.numbers if number.path.startswith("0.")}
    assert kept == {"0.nf": (Leaf("0.weight[1]"),), "0.nx": (Leaf("0.weight[0]"),)}
    model = nn.Sequential(Conv1D(), nn.Linear(6, 2)).double()
    grow(model, widen={"nf": 9}, example_inputs=X)
    assert (model[0].nf, model[0].nx, model[1].in_features) == (9, 5, 9)
