"""Tests of the sweep: it must see what is wrong, or it proves nothing."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from growkit.axes.axis import Lock
from growkit.growth.sizes import Sizes
from growkit.testing.randomise import randomise
from growkit.testing.sweep import Attempt, Sweep, refusals, wanted
from growkit.testing.zoo import ZOO


class Sized(nn.Module):
    """Scales by the number of its hidden units, which no constraint can see: it is asked of C code."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(3, 5), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        """`'batch in' -> 'batch out'`"""
        return self.down(self.up(x)) / self.up.weight.untyped_storage().nbytes()


def _sweep(model: nn.Module) -> Sweep:
    return Sweep(randomise(model.double().eval()), torch.randn(4, 3).double())


def test_every_axis_grows_by_every_method_that_it_admits() -> None:
    sweep = _sweep(nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 2)))
    sweep.every_axis()
    assert sweep.grown == {"0.weight[0]", "2.weight[0]", "4.weight[0]"}
    tried = {(next(iter(attempt.widen.items())), attempt.method) for attempt in sweep.of("exact")}
    assert {(("0.weight[0]", size), method) for size in (6, 10) for method in ("copy", "net2net", "fresh")} <= tried
    assert not sweep.of("wrong")
    assert not sweep.of("caught")
    assert all(attempt.reason for attempt in sweep.of("refused"))


def test_a_growth_that_verification_refuses_is_caught_and_not_exact() -> None:
    sweep = _sweep(Sized())
    attempt = sweep.grow({"up.weight[0]": 10})
    assert attempt.outcome == "caught"
    assert "function NOT kept" in attempt.reason
    assert sweep.grown == set()


class Counted(nn.Module):
    """Adds to as many numbers as it has hidden units, which no constraint can see: it is asked of C code."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(3, 5), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        """`'batch in' -> 'batch out'`"""
        numbers = torch.zeros(self.up.weight.untyped_storage().nbytes() // 24)
        return self.down(self.up(x)) + (torch.zeros(5) + numbers).sum()


def test_a_grown_model_that_does_not_run_is_no_refusal() -> None:
    sweep = _sweep(Counted())
    attempt = sweep.grow({"up.weight[0]": 10})
    assert (attempt.outcome, sweep.grown) == ("caught", set())
    assert "must match the size" in attempt.reason


def test_a_refusal_is_no_wrong_result() -> None:
    sweep = _sweep(Sized())
    attempt = sweep.grow({"up.weight[1]": 4})
    assert attempt.outcome == "refused"
    assert "data" in attempt.reason


def test_axes_grow_together_by_factors_for_their_kinds() -> None:
    model, inputs = ZOO["decoder"].make()
    sweep = Sweep(model, inputs)
    attempt = sweep.together({"stream": 2.0, "heads": 2.0}, 1.5)
    assert attempt is not None
    assert attempt.outcome == "exact"
    first, second = ({f"blocks.{i}.attention.qkv.weight[0].0": 4, f"blocks.{i}.up.weight[0]": 10} for i in (0, 1))
    dims = {f"blocks.{i}.attention.qkv.weight[0].{part}": 4 for i in (0, 1) for part in (1, 5)}  # tied by a number
    assert attempt.widen == {"blocks.0.attention.out.weight[0]": 12, **first, **second, **dims}


def test_what_one_size_of_a_factory_makes_grows_alike() -> None:
    def factory(sizes: Sizes) -> nn.Module:
        width = sizes["0.weight[0]"]
        return nn.Sequential(nn.Linear(3, width), nn.Linear(width, width), nn.Linear(width, 2))

    sweep = _sweep(factory({"0.weight[0]": 5}))  # type: ignore[arg-type]
    sweep.factory = factory
    assert sweep.grow({"0.weight[0]": 10}).outcome == "refused"
    sweep.joint = [("[01].weight[[]0[]]",)]
    attempt = sweep.grow({"0.weight[0]": 10})
    assert (attempt.outcome, attempt.widen) == ("exact", {"0.weight[0]": 10, "1.weight[0]": 10})


def test_what_a_person_would_want_and_what_never_grew() -> None:
    entry = ZOO["decoder"]
    sweep = Sweep(*entry.make())
    heads, hidden = "blocks.0.attention.qkv.weight[0].0", "blocks.0.up.weight[0]"
    names = [axis.name for axis in wanted(sweep, entry)]
    assert {heads, hidden} < set(names)
    assert not {"tokens.weight[0]", "positions.weight[0]", "head.weight[0]"} & set(names)
    sweep.grow({heads: 4})
    found = refusals(sweep, entry)
    assert "blocks.*.attention.qkv.weight[0].0" in found  # that of the other block
    sweep.grow({"blocks.1.attention.qkv.weight[0].0": 4})
    assert "blocks.*.attention.qkv.weight[0].0" not in refusals(sweep, entry)
    assert hidden.replace("0.", "*.", 1) in refusals(sweep, replace(entry, unwanted=("blocks.0.up*",)))
    assert hidden.replace("0.", "*.", 1) not in refusals(sweep, replace(entry, unwanted=("blocks.*.up*",)))


def test_a_refusal_says_what_would_make_the_growth_possible() -> None:
    entry, hidden = ZOO["decoder"], "blocks.0.up.weight[0]"
    sweep = Sweep(*entry.make())
    sweep.attempts.append(Attempt({hidden: 2}, None, "refused", "too few\n  allowed: 9\n  next step: ask for more"))
    assert refusals(sweep, entry)["blocks.*.up.weight[0]"] == "too few; ask for more"
    locks = (Lock("no", "blocks.0.up", "let it; or grow another axis"),)
    sweep.table = replace(sweep.table, axes=tuple(replace(axis, locks=locks) for axis in sweep.table.axes))
    assert refusals(sweep, entry)["blocks.*.up.weight[0]"] == "no (at blocks.*.up); let it"
    locks = (Lock("never", "blocks.0.up", "grow another axis"),)
    sweep.table = replace(sweep.table, axes=tuple(replace(axis, locks=locks) for axis in sweep.table.axes))
    assert refusals(sweep, entry)["blocks.*.up.weight[0]"] == "never (at blocks.*.up)"
