"""Discovery on whole models: layouts written by hand, and growth by copies as independent evidence."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from growkit.axes.expressions import Role, leaves
from growkit.axes.patterns import parse
from growkit.discovery.discover import discover
from growkit.errors import InputsError, LayoutError
from tests.discovery.copies import deviation_after_copies
from tests.discovery.models import (
    FRAMES,
    Attention,
    FusedAttention,
    GatedConvolution,
    ResidualMlp,
    Subsampling,
    X,
    conformer,
    unknown,
)  # fmt: skip
from tests.discovery.written import ATTENTION, FUSED, GATED, RESIDUAL, SUBSAMPLING, check_layouts, conformer_layouts

TOLERANCE = 1e-12
IMAGE = torch.randn(2, 15, 11, generator=torch.Generator().manual_seed(2), dtype=torch.float64)

MODELS: list[Any] = [
    pytest.param(lambda: ResidualMlp(6, 9, 4), X, RESIDUAL, id="residual mlp"),
    pytest.param(lambda: ResidualMlp(5, 5, 5), X[:, :5], RESIDUAL, id="residual mlp, equal sizes"),
    *(
        pytest.param(lambda s=s: Attention(s, 8, 2, 3), X, ATTENTION, id=f"attention by {s}")
        for s in ("view", "unflatten", "einops")
    ),
    *(
        pytest.param(lambda s=s: Attention(s, 4, 2, 2), X[:, :4], ATTENTION, id=f"attention by {s}, equal sizes")
        for s in ("view", "unflatten", "einops")
    ),
    pytest.param(lambda: FusedAttention(8, 2, 3), X, FUSED, id="fused attention"),
    pytest.param(lambda: FusedAttention(4, 2, 2), X[:, :2], FUSED, id="fused attention, equal sizes"),
    *(
        pytest.param(lambda c=c, n=n: GatedConvolution(c, n), X, GATED, id=f"glu, chunk={c}, {n} channels")
        for c in (True, False)
        for n in (6, 5, 3)
    ),
    pytest.param(Subsampling, IMAGE, SUBSAMPLING, id="subsampling"),
    pytest.param(conformer, FRAMES, conformer_layouts(2), id="conformer"),
    pytest.param(
        lambda: conformer(
            model_dim=4, ffn_dim=4, num_heads=2, head_dim=2, conv_channels=4, position_dim=4, kernel_size=3, input_dim=4
        ),
        (FRAMES[0][:, :4, :4], torch.tensor([4, 3, 2])),
        conformer_layouts(2),
        id="conformer, equal sizes",
    ),
]


@pytest.mark.parametrize(("make", "inputs", "written"), MODELS)
def test_layouts_are_those_written_by_hand(make: Callable[[], nn.Module], inputs: Any, written: dict[str, str]) -> None:
    model = make().to(inputs[0].dtype)
    table = discover(model, inputs)
    check_layouts(table, written)
    assert table.unreached == ()


@pytest.mark.parametrize(
    ("layers", "written"),
    [
        ([nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 7)], ["a:produces in:consumes", "out:produces a:consumes"]),
        ([nn.Linear(5, 5), nn.GELU(), nn.Linear(5, 5)], ["a:produces in:consumes", "out:produces a:consumes"]),
    ],
)
def test_a_plain_mlp(layers: list[nn.Module], written: list[str]) -> None:
    table = discover(nn.Sequential(*layers).double(), X)
    check_layouts(
        table,
        {
            "0.weight": written[0],
            "0.bias": "a:produces",
            "2.weight": written[1],
            "2.bias": "out:produces",
        },
    )
    assert [axis.kind for axis in table] == ["hidden", "input", "output"]
    assert not table.by_name["0.weight[0]"].locked


def test_batch_norm_after_linear() -> None:
    table = discover(nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Linear(6, 2)).double(), X[0])
    axis = table.by_name["0.weight[0]"]
    assert axis.kind == "channels"
    assert [p.kind for p in axis.passages] == ["batch_norm"]
    assert {o.role for o in axis.occurrences} == set(Role) - {Role.READOUT}


KINDS = {
    "encoder.input_projection.weight[0]": ("stream", {"layer_norm", "residual", "centred"}),
    "encoder.input_projection.weight[1]": ("input", {"input"}),
    "encoder.layers.0.feed_forward1.linear1.weight[0]": ("hidden", {"pointwise:silu"}),
    "encoder.layers.0.attention.query.weight[0].0": (
        "heads", {"per_head", "pointwise:softmax", "pointwise:masked_fill", "residual"},
    ),
    "encoder.layers.0.attention.query.weight[0].1": ("head_dim", {"contracted_queries"}),
    "encoder.layers.0.attention.value.weight[0].1": ("head_dim", set()),
    "encoder.layers.0.attention.position.weight[1]": ("fixed", set()),
    "encoder.layers.0.convolution.pointwise1.weight[0].0": (
        "channels", {"gate", "pointwise:sigmoid", "depthwise_conv", "batch_norm", "pointwise:silu"},
    ),
    "encoder.layers.0.convolution.depthwise.weight[2]": ("fixed", set()),
    "output.weight[0]": ("output", {"output"}),
}  # fmt: skip


def test_names_kinds_and_passages_of_a_conformer() -> None:
    table = discover(conformer(num_layers=1).double(), FRAMES)
    found = {axis.name: (axis.kind, {p.kind for p in axis.passages}) for axis in table}
    second = "encoder.layers.0.feed_forward2.linear1.weight[0]"
    assert found == KINDS | {second: ("hidden", {"pointwise:silu"})}
    assert {axis.name for axis in table if axis.locked} == {
        "encoder.input_projection.weight[1]",
        "encoder.layers.0.attention.position.weight[1]",
        "encoder.layers.0.convolution.depthwise.weight[2]",
    }


def test_the_roles_of_the_conformers_own_declarations_agree() -> None:
    """What `growkit.nn` declares beside its blocks is what the run shows."""
    model = conformer().double()
    declared: dict[str, str] = {}
    for path, module in model.named_modules():
        for name, text in getattr(type(module), "growkit_layouts", {}).items():
            declared[f"{path}.{name}" if path else name] = text
    table = discover(model, FRAMES)
    assert set(declared) == set(table.layouts)
    for name, text in declared.items():
        roles = [leaf.role for dim in parse(text) for leaf in leaves(dim)]
        assert [leaf.role for leaf in table.layouts[name]] == roles, name


GROWTHS: list[Any] = [
    (lambda: ResidualMlp(6, 9, 4), X, {"up.0.weight[0]": [*range(9), 3, 3, 0], "up.1.weight[0]": [*range(9), 8]}),
    (lambda: ResidualMlp(6, 9, 4), X, {"enter.weight[0]": [*range(6), *range(6)]}),
    (lambda: Attention("einops", 8, 2, 3), X, {"query.weight[0].0": [0, 1, 1], "value.weight[0].1": [0, 1, 2, 2, 0]}),
    (lambda: Attention("view", 8, 2, 3), X, {"query.weight[0].0": [0, 1, 1, 0, 0]}),
    (lambda: Attention("unflatten", 8, 2, 3), X, {"enter.weight[0]": [*range(8), 5, 5, 1]}),
    (lambda: FusedAttention(8, 2, 3), X, {"qkv.weight[0].0": [0, 1, 0]}),
    (lambda: GatedConvolution(True, 6), X, {"up.weight[0].0": [*range(6), 2, 2]}),
    (lambda: GatedConvolution(False, 6), X, {"up.weight[0].0": [*range(6), 4]}),
    (Subsampling, IMAGE, {"second.weight[0]": [*range(6), 1], "first.weight[0]": [0, *range(4)]}),
    (
        conformer,
        FRAMES,
        {
            "encoder.input_projection.weight[0]": [*range(8), *range(8)],
            "encoder.layers.0.feed_forward1.linear1.weight[0]": [*range(20), 7, 7],
            "encoder.layers.1.feed_forward2.linear1.weight[0]": [*range(20), 19],
            "encoder.layers.0.attention.query.weight[0].0": [0, 1, 1],
            "encoder.layers.1.attention.value.weight[0].1": [0, 1, 2, 0],
            "encoder.layers.1.convolution.pointwise1.weight[0].0": [*range(6), 3],
        },
    ),
]  # fmt: skip


@pytest.mark.parametrize(("make", "inputs", "sources"), GROWTHS)
def test_copies_along_the_found_axes_keep_the_function(
    make: Callable[[], nn.Module], inputs: Any, sources: Any
) -> None:
    assert deviation_after_copies(make(), inputs, sources) < TOLERANCE


@pytest.mark.parametrize("alone", ["input_dim", "ffn_dim", "num_heads", "head_dim", "conv_channels", "position_dim"])
def test_sizes_of_one_lock_what_cannot_be_told_and_nothing_else(alone: str) -> None:
    table = discover(
        conformer(num_layers=1, **{alone: 1}).double(), (FRAMES[0][..., : 1 if alone == "input_dim" else 12], FRAMES[1])
    )
    stream = table.by_name["encoder.input_projection.weight[0]"]
    assert (stream.kind, stream.size, stream.locked) == ("stream", 8, False)
    assert not [axis.name for axis in table if axis.size == 1 and not axis.locked]


def test_discovery_is_deterministic() -> None:
    model = conformer().double()
    assert discover(model, FRAMES) == discover(model, FRAMES)


def test_an_op_without_rule_locks_and_a_declared_layout_opens() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(5, 4), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.b(unknown(self.a(x)))

    model = Odd().double()
    table = discover(model, X)
    lock = table.by_name["a.weight[0]"].locks[0]
    assert "aten.put is no op that growkit knows" in lock.reason
    assert lock.where == "Odd (put)"
    assert "layouts=" in lock.next_step
    declared = discover(
        model, X, layouts={"a.weight": "mid:produces in:consumes", "b.weight": "out:produces mid:consumes"}
    )
    assert [axis.name for axis in declared] == ["mid", "in", "out"]
    assert not declared.by_name["mid"].locked
    assert {str(o) for o in declared.by_name["mid"].occurrences} == {"a.weight[0]", "a.bias[0]", "b.weight[1]"}
    with pytest.raises(LayoutError, match="contradicts the traced run"):
        discover(model, X, layouts={"a.weight": "mid:consumes in:consumes"})


def test_what_is_never_read_is_listed_and_locked() -> None:
    model = nn.Module()
    model.used, model.unused = nn.Linear(5, 3), nn.Linear(2, 4)
    table = discover(model.double(), X, call=lambda m, x: m.used(x))
    assert table.unreached == ("unused.weight", "unused.bias")
    assert {a.locks[0].reason for a in table if "unused" in a.name} == {"not read in the traced run"}


def test_a_tied_table_that_produces_and_consumes_is_locked() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(11, 6)
            self.head = nn.Linear(6, 11, bias=False)
            self.head.weight = self.table.weight

        def forward(self, ids: Tensor) -> Tensor:
            return self.head(self.table(ids))

    table = discover(Tied(), torch.tensor([[1, 2, 3]]))
    reasons = {axis.name: [lock.reason for lock in axis.locks] for axis in table}
    assert reasons["table.weight[1]"] == [
        "one tensor produces and consumes it, and what it reads there is scaled by no parameter of this reading alone"
    ]
    assert reasons["table.weight[0]"] == []


def test_an_axis_of_one_unit_is_locked_until_declared() -> None:
    model = nn.Sequential(nn.Linear(5, 1), nn.Tanh(), nn.Linear(1, 2)).double()
    table = discover(model, X)
    assert "one unit" in table.by_name["0.weight[0]"].locks[0].reason
    declared = discover(
        model, X, {"0.weight": "h:produces in:consumes", "0.bias": "h:produces", "2.weight": "out:produces h:consumes"}
    )
    assert not declared.by_name["h"].locked
    assert len(declared.by_name["h"].occurrences) == 3


def test_inputs_that_do_not_fit_are_an_error_with_the_cause() -> None:
    with pytest.raises(
        InputsError, match=r"Linear raises RuntimeError on the example inputs \(float64\[2, 7, 5\]\)"
    ) as e:
        discover(nn.Linear(4, 3).double(), X)
    assert isinstance(e.value.__cause__, RuntimeError)


def test_sizes_used_as_keys_do_not_disturb() -> None:
    class Keyed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.width = 4
            self.layer, self.scales = nn.Linear(5, 4), {4: 0.5}

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x) * self.scales[self.width]

    assert discover(Keyed().double(), X).by_name["layer.weight[0]"].kind == "output"


def test_consecutive_layers_of_equal_size_are_different_axes() -> None:
    model = nn.Sequential(*(nn.Linear(5, 5) for _ in range(4))).double()
    table = discover(model, X)
    produced = [next(iter(table.layouts[f"{i}.weight"])).axis for i in range(4)]
    assert len(set(produced)) == 4
    for before, after in pairwise(range(4)):
        assert list(table.layouts[f"{after}.weight"])[1].axis == produced[before]
