"""What a growth says about itself."""

import copy

import torch
from torch import nn
from torch.optim import SGD, Adam

from growkit import Insert, grow
from tests.growth.nets import mlp, residual, rows, train


def test_sizes_tensors_and_names() -> None:
    """Hidden layer 5 -> 7 beside a stream of 4, and one block of 8 + 25 + 24 parameters, doubles of 8 bytes each."""
    model = residual()
    report = grow(model, widen={"blocks.0.up.weight[0]": 7}, deepen={"blocks": Insert(at=[1])}, example_inputs=rows(6))
    assert (report.before.parameters, report.after.parameters) == (140, 140 + 2 * 4 + 2 + 2 * 4 + 8 + 35 + 32)
    assert report.after.bytes == 8 * report.after.parameters
    assert report.before.flops == 2 * 6 * (12 + 2 * 40 + 8)
    assert report.after.flops == 2 * 6 * (12 + 56 + 56 + 40 + 8)
    assert [(t.name, t.before, t.after, t.new_entries) for t in report.tensors] == [
        ("blocks.0.up.weight", (5, 4), (7, 4), 8),
        ("blocks.0.up.bias", (5,), (7,), 2),
        ("blocks.0.down.weight", (4, 5), (4, 7), 8),
    ]
    assert report.renames["blocks.1.up.weight"] == "blocks.2.up.weight"
    assert report.new_parameters[0] == "blocks.1.norm.weight"
    assert report.model is model
    assert report.table is not None
    assert report.table.sizes["blocks.1.up.weight[0]"] == 7
    assert report.verification is not None
    assert report.verification.passed


def test_all_names_are_those_after_the_growth() -> None:
    """Block 1 becomes block 2, and its hidden layer grows."""
    model = residual()
    optimizer = Adam([p for name, p in model.named_parameters() if name != "blocks.1.up.bias"])
    train(model, optimizer)
    widen = {"blocks.1.up.weight[0]": 10}
    report = grow(
        model,
        widen=widen,
        deepen={"blocks": Insert(at=[1])},
        method="copy",
        optimizers=optimizer,
        example_inputs=rows(),
    )
    grown = ["blocks.2.up.weight", "blocks.2.up.bias", "blocks.2.down.weight"]
    assert [(t.name, t.was) for t in report.tensors] == [(name, name.replace("2", "1")) for name in grown]
    parameters = dict(model.named_parameters())
    assert [tuple(parameters[t.name].shape) for t in report.tensors] == [t.after for t in report.tensors]
    assert {name for name, slots in report.slots.items() if slots} == {grown[0], grown[2]}
    assert report.learning_rate_factors == {"blocks.2.down.weight": 0.5}
    assert report.unoptimized == ("blocks.2.up.bias",)
    assert any(line.split()[:4] == [grown[0], "5x4", "->", "10x4"] for line in str(report).splitlines())


def test_a_reset_says_what_it_drops() -> None:
    model = mlp()
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
    train(model, optimizer)
    report = grow(model, widen={"0.weight[0]": 6}, optimizers=optimizer, new_state="reset", example_inputs=rows())
    assert {s.status for slots in report.slots.values() for s in slots} == {"reset"}
    assert "reset: new_state='reset' drops the whole state of parameters with new entries" in str(report)
    assert model[0].weight not in optimizer.state


def test_slots_say_what_became_of_them() -> None:
    model = mlp()
    optimizer = Adam(model.parameters(), weight_decay=0.1)
    train(model, optimizer)
    report = grow(model, widen={"0.weight[0]": 10}, method="copy", optimizers=optimizer, example_inputs=rows())
    statuses = {name: {s.slot: s.status for s in slots} for name, slots in report.slots.items()}
    assert statuses["0.weight"] == {"step": "exact", "exp_avg": "approximate", "exp_avg_sq": "approximate"}
    assert "approximate: holds weight decay (0.1)" in str(report)


def test_learning_rate_factors_are_suggested_not_applied() -> None:
    """A reader of twice as many copies moves twice as far: half the rate for Adam."""
    model = mlp()
    optimizer = Adam(model.parameters(), lr=0.01)
    report = grow(model, widen={"0.weight[0]": 10}, method="copy", optimizers=optimizer, example_inputs=rows())
    assert report.learning_rate_factors == {"2.weight": 0.5}
    assert optimizer.param_groups[0]["lr"] == 0.01


def test_text() -> None:
    model, other = residual(), nn.Linear(2, 2)
    held = [p for name, p in model.named_parameters() if name != "last.weight"]
    optimizer = SGD([*held, *other.parameters()], lr=0.1, momentum=0.9)
    train(model, optimizer)
    report = grow(
        model, widen={"first.weight[0]": 8}, deepen={"blocks": 3}, optimizers=optimizer, example_inputs=rows()
    )
    lines = str(report).splitlines()
    assert lines[0] == "plan:"
    assert "  first.weight[0]: 4 -> 8 (copy)" in lines
    assert any(
        line.split() == ["first.weight", "4x3", "->", "8x3", "(0)", "momentum_buffer", "exact"] for line in lines
    )
    assert any(line.split() == ["last.weight", "2x4", "->", "2x8", "(0)", "-"] for line in lines)
    assert "new: 6 parameters in new blocks, blocks.2.norm.weight ..." in lines
    assert any(line.startswith("in no given optimizer: last.weight: these are new tensors") for line in lines)
    assert f"the optimizers hold {len(report.foreign)} parameters that are not among these: left alone" in lines
    assert any(line.startswith("warning: copies on 'first.weight[0]'") for line in lines)
    assert lines[-2].startswith(f"parameters 140 -> {report.after.parameters}, bytes 1120 -> ")
    assert lines[-1].startswith("function kept: relative deviation")


def test_without_inputs_the_report_says_so() -> None:
    model = residual()
    plan = grow(copy.deepcopy(model), widen={"first.weight[0]": 8}, example_inputs=rows()).plan
    report = grow(model, plan)
    assert str(report).splitlines()[-1] == "not verified: no example inputs were given"
    assert "FLOPs" not in str(report)
    assert (report.verification, report.table, report.after.flops) == (None, None, None)


def test_scalars_have_a_shape_too() -> None:
    class Gain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.gain, self.down = nn.Linear(3, 4), nn.Parameter(torch.tensor(2.0)), nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.down(self.up(x) * self.gain)

    model = Gain().double()
    report = grow(model, widen={"up.weight[0]": 6}, example_inputs=rows())
    assert "gain" not in {t.name for t in report.tensors}
    assert model.gain.shape == ()
