"""One parameter in several places: right where its roles agree, refused where they do not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_model, save_file
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

import growkit as gk
from growkit.testing import randomise
from growkit.testing.sweep import Sweep
from tests.discovery.models import Small, X, reasons, weight

TWO_ROLES = "one tensor produces and consumes it"


def _sweep(model: nn.Module) -> Sweep:
    sweep = Sweep(randomise(model).eval(), X)
    sweep.every_axis()
    sweep.together({}, 2.0)
    assert sweep.of("wrong") == sweep.of("caught") == []
    return sweep


@pytest.mark.parametrize(("outer", "inner"), [(6, 4), (4, 4)])
def test_a_weight_that_reads_transposed_what_it_wrote(outer: int, inner: int) -> None:
    """An autoencoder with tied weights: copies of inner units would count twice, fresh ones would be read at once.

    Outer units grow: the layer before, which nothing else reads, is divided in place of the weight.
    """
    model = Small(
        lambda m, x: m.c(F.linear(torch.tanh(F.linear(m.a(x), m.w)), m.w.T)),
        a=nn.Linear(5, outer), c=nn.Linear(outer, 3), w=weight(inner, outer),
    )  # fmt: skip
    sweep = _sweep(model)
    assert TWO_ROLES in reasons(sweep.table, "w[0]")[0]
    assert sweep.table["a.weight[0]"][0].name in sweep.grown


def test_one_module_called_on_two_axes_makes_them_one() -> None:
    """What it reads is one axis, and so is what it writes: they grow together."""
    model = Small(
        lambda m, x: m.c(torch.tanh(m.b(torch.tanh(m.a(x)))) + torch.tanh(m.b(torch.relu(m.d(x))))),
        a=nn.Linear(5, 4), d=nn.Linear(5, 4), b=nn.Linear(4, 6), c=nn.Linear(6, 3),
    )  # fmt: skip
    sweep = _sweep(model)
    assert sweep.table["a.weight[0]"] == sweep.table["d.weight[0]"]
    assert sweep.grown >= {"a.weight[0]", "b.weight[0]"}


def test_one_module_called_on_its_own_result_is_a_recurrence() -> None:
    model = Small(
        lambda m, x: m.c(torch.tanh(m.b(torch.tanh(m.b(m.a(x)))))), a=nn.Linear(5, 4), b=nn.Linear(4, 4),
        c=nn.Linear(4, 3),
    )  # fmt: skip
    assert "a.weight[0]" in _sweep(model).grown


def test_a_weight_that_is_a_gain_as_well() -> None:
    model = Small(
        lambda m, x: m.c(torch.tanh(F.linear(x, m.w) * m.w[:, 0])), c=nn.Linear(4, 3), w=weight(4, 5)
    )  # fmt: skip
    sweep = _sweep(model)
    assert reasons(sweep.table, "w[0]") == ["one tensor gain and produces it"]


def test_a_parameter_read_by_data_or_detached_grows_as_usual() -> None:
    for use in (lambda w: w.data, lambda w: w.detach()):
        model = Small(
            lambda m, x, use=use: m.c(torch.tanh(F.linear(m.a(x), use(m.w)))),
            a=nn.Linear(5, 4), c=nn.Linear(6, 3), w=weight(6, 4),
        )  # fmt: skip
        assert _sweep(model).grown >= {"a.weight[0]", "w[0]"}


def test_a_layer_that_is_called_with_other_tensors() -> None:
    """`functional_call` with parameters of the model: scaled, and of another module."""

    def run(m: Small, x: Tensor) -> Tensor:
        scaled = {"weight": m.b.weight * m.s[:, None], "bias": m.b.bias}
        return m.c(torch.tanh(functional_call(m.b, scaled, (torch.tanh(m.a(x)),))))

    model = Small(run, a=nn.Linear(5, 4), b=nn.Linear(4, 6), s=weight(6), c=nn.Linear(6, 3))
    assert _sweep(model).grown >= {"a.weight[0]", "b.weight[0]"}


def test_a_buffer_that_holds_a_transposed_copy_of_a_weight() -> None:
    """Computed from the weight once: it is a tensor of its own, and grows with the axes that it meets."""
    model = Small(
        lambda m, x: m.c(torch.tanh(m.a(x) @ m.kept)) + F.linear(torch.tanh(F.linear(m.a(x), m.w)), m.c.weight),
        a=nn.Linear(5, 4), w=weight(6, 4), c=nn.Linear(6, 3),
    )  # fmt: skip
    model.register_buffer("kept", model.w.detach().T.clone())
    assert _sweep(model).grown >= {"a.weight[0]", "w[0]"}


def test_a_plain_attribute_computed_from_a_weight_is_locked() -> None:
    model = Small(lambda m, x: m.c(torch.tanh(m.a(x) @ m.kept)), a=nn.Linear(5, 4), c=nn.Linear(6, 3)).double()
    vars(model)["kept"] = torch.randn(4, 6, dtype=torch.float64)
    table = gk.discover(model, X)
    assert "a tensor that is no parameter or buffer has it" in reasons(table, "a.weight[0]")[0]


class TiedHead(nn.Module):
    """Tokens, a linear layer, and scores by the table of tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.hidden, self.head = nn.Embedding(7, 4), nn.Linear(4, 4), nn.Linear(4, 7, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.hidden(torch.tanh(self.tokens(ids))))


@pytest.mark.report("R099")
@pytest.mark.parametrize("kept", ["tokens.weight", "head.weight"])
def test_a_file_with_one_name_of_a_tied_pair_fills_both(kept: str, tmp_path: Path) -> None:
    """The replayed growth leaves the tie, and the model's own values, drawn anew, give way to the file's."""
    ids = torch.tensor([[0, 3, 6]])
    model = randomise(TiedHead())
    plan = gk.make_plan(gk.discover(model, ids), widen={"tokens.weight[1]": 8})
    gk.grow(model, plan, example_inputs=ids)
    dropped = {"tokens.weight", "head.weight"} - {kept}
    file = {name: value.contiguous() for name, value in model.state_dict().items() if name not in dropped}
    save_file(file, tmp_path / "grown.safetensors")

    fresh = TiedHead()
    gk.grow(fresh, gk.Plan.from_json(plan.to_json()))
    load_model(fresh, tmp_path / "grown.safetensors")
    assert fresh.head.weight is fresh.tokens.weight
    assert torch.equal(fresh.tokens.weight, model.tokens.weight)
    assert torch.equal(fresh(ids), model(ids))
