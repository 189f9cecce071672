"""Gradients of grown models of the zoo are the mapped gradients of the small ones (law 3), so moments move exactly.

The gradients are those of autograd; only the maps themselves come from growkit. This is what tells wrong roles: a
tied tensor, a kernel of a group, the slope of a PReLU have the same values under other roles, but other gradients.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import growkit as gk
from growkit.discovery.inputs import leaves_in, run_model
from growkit.growth.float64 import float64
from growkit.growth.resolve import resolve
from growkit.maps.lifting import DimMap
from growkit.testing import randomise
from growkit.testing.sweep import Sweep
from growkit.testing.zoo import FOREIGN, ZOO
from tests.end_to_end.awkward.construct import ODD
from tests.end_to_end.test_awkward import CONSTRUCTS

METHODS = ["copy", "net2net", *(pytest.param(name, marks=pytest.mark.slow) for name in ("fresh", "zero_pad"))]
NOTHING_GROWS = {
    *(("tied recurrent language model", method) for method in ("net2net", "fresh", "zero_pad")),
    ("MultiheadAttention, one tensor", "zero_pad"),
    *((name, "zero_pad") for name in (
        "convolutions", "convolutions over time", "convolutions over volumes", "depthwise convolutions",
        "grouped convolutions", "group norms", "instance norms", "residual convolutions", "concatenated branches",
        "recurrent cells", "MultiheadAttention, two tensors", "bottleneck convolutions",
    )),
}  # fmt: skip
"""Models all of whose inner axes pass something that does not admit the method, such as a norm or a ReLU."""


def gradients(model: nn.Module, inputs: Any) -> dict[str, Tensor]:
    """Gradients of a weighted sum of all outputs."""
    model.zero_grad()
    result = run_model(model, inputs, None)
    generator = torch.Generator().manual_seed(0)
    outputs = [t for t in leaves_in(result) if t.requires_grad]
    sum((t * torch.randn(t.shape, generator=generator, dtype=t.dtype)).sum() for t in outputs).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def mapped(gradient: Tensor, dims: tuple[DimMap | None, ...]) -> tuple[Tensor, Tensor]:
    """The gradient that the grown parameter should have, and where that is known: where no dim is new."""
    known = torch.ones(())
    for d, dim in enumerate(dims):
        view = [-1 if e == d else 1 for e in range(gradient.dim())]
        source = torch.arange(gradient.shape[d]) if dim is None else torch.tensor(dim.source)
        factors = torch.ones(len(source)) if dim is None else torch.tensor(dim.gradient, dtype=torch.float64)
        gradient = gradient.index_select(d, source.clamp_min(0)) * factors.view(view)
        known = known * (source >= 0).view(view)
    return gradient, known.bool().expand_as(gradient)


def together(sweep: Sweep, method: str) -> gk.Plan | None:
    """As many axes as grow together by one method; outputs stay, so that the loss is the same."""
    widen: dict[str, int] = {}
    plan = None
    for name in sweep.unlocked:
        axis = sweep.table.by_name[name]
        if name in widen or any(passage.kind == "output" for passage in axis.passages):
            continue
        for new in (axis.size + 1, 2 * axis.size):
            longer = sweep.plan(widen | {name: new}, method)
            if isinstance(longer, gk.Plan):
                plan, widen = longer, {step.axis: step.new for step in longer.width}
                break
    return plan


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ZOO)
def test_gradients_are_mapped(name: str, method: str) -> None:
    model, inputs = ZOO[name].make()
    plan = together(Sweep(model, inputs), method)
    assert (plan is None) == ((name, method) in NOTHING_GROWS)
    if plan is None:
        return
    check(model, inputs, plan)


def check(model: nn.Module, inputs: Any, plan: gk.Plan, bound: float = 1e-12) -> None:
    """Compares the gradients after the growth with the mapped ones of before."""
    edits = resolve(plan, model).edits
    before = gradients(model, inputs)
    grown = copy.deepcopy(model)
    gk.grow(grown, plan, example_inputs=inputs)
    after = gradients(grown, inputs)
    largest = max(float(g.abs().max()) for g in before.values())
    for tensor, old in before.items():
        expected, known = mapped(old, edits[tensor].dims) if tensor in edits else (old, torch.ones_like(old).bool())
        assert after[tensor].shape == expected.shape
        assert float(((after[tensor] - expected) * known).abs().max()) <= bound * largest, tensor


BOUNDS = {"kept: bfloat16 in the middle": 2.0**-7, "control: RMSNorm by hand": 2.0**-23}
"""Constructs that compute in bfloat16 and in float32, and the spacing of these numbers at 1."""

NOT_TRAINED = "control: in-place ops of all kinds"
"""Torch finds no gradient of it: it writes over what the backward pass needs."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # torch.compile looks at it
@pytest.mark.parametrize("method", ["copy", "net2net", "fresh"])
@pytest.mark.parametrize("name", sorted({*CONSTRUCTS} - {NOT_TRAINED}))
def test_gradients_of_awkward_constructs_are_mapped(name: str, method: str) -> None:
    """Of those that grow by the method; what does not is refused, which is tested elsewhere."""
    model, inputs = CONSTRUCTS[name].make(ODD)
    model = randomise(model).eval()
    plan = together(Sweep(model, inputs), method)
    if plan is not None:
        check(model, inputs, plan, BOUNDS.get(name, 1e-12))


BY_FACTORY = "RETURNN Conformer"
"""It grows by a factory only; its parameters are those of the new module."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", ["copy", "net2net"])
@pytest.mark.parametrize("name", sorted({*FOREIGN} - {BY_FACTORY}))
def test_gradients_of_models_of_other_libraries_are_mapped(name: str, method: str) -> None:
    """In float64 throughout: many of their norms cast to float32."""
    entry = FOREIGN[name]
    model, inputs = entry.make()
    gradients(model, inputs)  # some make a buffer in their first run
    plan = together(Sweep(model, inputs, layouts=entry.layouts), method)
    assert plan is not None
    with float64():
        check(model, inputs, plan)
