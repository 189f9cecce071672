"""`grow`: check everything, commit, verify; on failure take everything back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from growkit.axes.table import AxisTable
from growkit.discovery.discover import discover
from growkit.discovery.inputs import CallModel, run_model
from growkit.discovery.untouched import untouched, unwrap
from growkit.errors import GrowthInterrupted, InputsError, PlanError, VerificationError
from growkit.growth.arguments import check_arguments
from growkit.growth.configs import Check, bring_in_line, entries_of
from growkit.growth.depth import Deepen
from growkit.growth.followers import Follower, as_followers, check_apart, given_followers
from growkit.growth.handover import hand_over, rebuild_followers
from growkit.growth.journal import Journal
from growkit.growth.plan import Plan
from growkit.growth.planning import make_plan
from growkit.growth.rebuild import Factory, check_can_rebuild, rebuilt
from growkit.growth.reference import measure
from growkit.growth.replace import moved, moved_layouts
from growkit.growth.report import Report, Size, TensorChange
from growkit.growth.resolve import Resolved, resolve
from growkit.growth.retrace import FACTORY, StaleReads, check_retrace
from growkit.growth.running import Runs
from growkit.growth.transaction import commit
from growkit.growth.unread import declared_as
from growkit.growth.verify import Verification, compare, first_deviation, record
from growkit.growth.width import Methods, Widen
from growkit.nn.contents import tensors_of
from growkit.optim.check import CheckedOptimizer, check_optimizer
from growkit.optim.factors import learning_rate_factor
from growkit.optim.rules import NewState

Optimizers = torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None


def grow(
    model: nn.Module,
    plan: Plan | None = None,
    *,
    widen: Widen | None = None,
    deepen: Deepen | None = None,
    method: Methods = None,
    multiple_of: int | None = None,
    seed: int = 0,
    leave: Collection[str] = (),
    optimizers: Optimizers = None,
    followers: Follower | Iterable[Follower] | None = None,
    example_inputs: Any = None,
    layouts: Mapping[str, str] | None = None,
    call: CallModel | None = None,
    new_state: NewState = "mean",
    rollback: bool = True,
    factory: Factory | None = None,
) -> Report:
    """Grows a model in place, or by a factory, with its optimizers and followers, and verifies it.

    Args:
        model: any module; compiled ones are unwrapped, DDP and FSDP are refused.
        plan: what to do; or `widen`, `deepen`, `method`, `multiple_of`, `seed` and `leave` as in `make_plan`.
        optimizers: one or several; their state moves along, by exact rules.
        followers: modules or mappings of tensors that average the model; they grow by the same maps.
        example_inputs: a tensor, tuple, mapping or `Inputs`; with them the result is verified: the same outputs
            as before within rounding, and every grown parameter read at its new size.
        layouts, call: as in `discover`.
        new_state: what the optimizer state of new entries starts with, "mean" or "zero"; with "reset", every parameter
            that has new entries loses its whole state, that of its old entries too.
        rollback: keep the old tensors until verification has passed, so that any failure leaves everything
            as it was. False frees each old tensor as soon as it is replaced.
        factory: for models that keep references of their own to their parameters, a function of the new sizes
            (see `growkit.growth.sizes.Sizes`) that builds a new module: it takes over the weights, optimizers hold its
            parameters, and it is `report.model`. The old model stays as it is. Followers that are modules are built
            the same way: `report.followers`.

    Law: f_after(x) = f_before(x).

    Raises:
        GrowkitError: before anything is touched, if anything asked for cannot be done exactly.
        VerificationError: the grown model computes something else; everything is as before.
        GrowthInterrupted: with `rollback=False`, a failure after the first tensor was replaced.
    """
    check_arguments(model, plan, optimizers)
    model = unwrap(model)
    if plan is None:
        table = _table(model, example_inputs, layouts, call)
        plan = make_plan(table, widen, deepen, method=method, multiple_of=multiple_of, seed=seed, leave=leave)
    elif widen or deepen or method or seed or multiple_of or leave:
        raise PlanError(
            "a plan, and widen, deepen, method, multiple_of, seed or leave beside it",
            "one of the two",
            "put all into the plan",
        )
    resolved = resolve(plan, model)
    if factory is not None:
        check_can_rebuild(plan)
    parameters = dict(model.named_parameters())
    given = (optimizers,) if isinstance(optimizers, torch.optim.Optimizer) else tuple(dict.fromkeys(optimizers or ()))
    checked = [(optimizer, check_optimizer(optimizer, parameters)) for optimizer in given]
    targets = as_followers(followers, plan.fingerprint)
    check_apart(model, targets)
    factors = _learning_rate_factors(resolved, [check for _, check in checked])
    grown = _tensor_changes(model, resolved)
    old = StaleReads(model, tensors_of(model) if factory else resolved.edits)
    del parameters  # they would keep the old tensors alive
    before = _size(model, example_inputs, call)
    tensors = tensors_of(model)
    rounded = [name for name, edit in resolved.edits.items() if edit.rounds(tensors[name].dtype)]
    del tensors
    reference = None if example_inputs is None else measure(model, example_inputs, call=call, rounded=rounded)
    entries = entries_of(model)
    journal = Journal(keep=rollback or factory is not None)
    verification, traced, new, now_following = None, None, model, given_followers(followers)
    layouts_after = None if layouts is None else moved_layouts(layouts, plan.depth)
    try:
        if factory is None:
            changes = commit(model, resolved, checked, targets, new_state, journal)
        else:
            new = rebuilt(model, resolved, factory)
            changes = hand_over(model, new, resolved, checked, new_state, journal)
            now_following = rebuild_followers(now_following, resolved, factory, journal)
        if reference is not None:
            verification = compare(reference, new, example_inputs, call=call)
            if not verification.passed:
                raise _not_kept(model, new, verification, plan, journal, example_inputs, call)
            with old:
                traced = discover(new, example_inputs, layouts=layouts_after, call=call)
            old.check()
            check_retrace(plan, traced, changes.renames, changes.new_parameters)
        check = None if reference is None else Check(reference, example_inputs, call)
        configs = bring_in_line(new, resolved, check, journal, entries)
        after = _size(new, example_inputs, call)
    except BaseException as error:
        journal.undo()
        if journal.keep and isinstance(error, InputsError):
            raise _no_more_accepted(error, plan, factory) from error
        if not journal.keep and journal.writes and isinstance(error, Exception):
            raise GrowthInterrupted(
                f"a growth without rollback failed after {journal.writes} writes: {error}",
                "nothing: model, optimizers and followers are half grown",
                "load the last checkpoint; grow with rollback=True to be safe",
            ) from error
        raise
    return Report(
        model=new,
        plan=plan,
        before=before,
        after=after,
        tensors=grown,
        slots=changes.slots,
        renames=changes.renames,
        new_parameters=changes.new_parameters,
        unoptimized=changes.unoptimized,
        foreign=tuple(str(place) for _, check in checked for place in check.foreign),
        learning_rate_factors=factors,
        warnings=(*plan.warnings, *(str(config) for config in configs if not config.describes)),
        configs=configs,
        verification=verification,
        table=traced,
        layouts=layouts_after,
        followers=now_following,
    )


def _table(
    model: nn.Module, example_inputs: Any, layouts: Mapping[str, str] | None, call: CallModel | None
) -> AxisTable:
    if example_inputs is None:
        raise InputsError(
            "no plan and no example inputs",
            "a plan, or example inputs with which the axes can be found",
            "pass example_inputs, a tiny batch is enough",
        )
    return discover(model, example_inputs, layouts=layouts, call=call)


def _no_more_accepted(error: InputsError, plan: Plan, factory: Factory | None) -> VerificationError:
    if plan.left_alone and plan.width:
        return VerificationError(
            f"after the growth, {error.given}",
            f"that {', '.join(plan.left_alone)}, which the traced run did not read, fits what grew",
            f"if it lies along what grew, declare it: {declared_as(plan.left_alone[0], plan.width[0])}",
        )
    if plan.depth and not plan.width and error.__cause__ is None:  # not of the run, but of what it gives
        return VerificationError(f"after the growth, {error.given}", error.allowed, error.next_step)
    return VerificationError(
        f"after the growth, {error.given}",
        "a model that computes with the sizes of its tensors: it accepted these inputs before",
        "a module computes with a size or a reference of its own: keep it in an attribute that its forward reads, "
        + (f"declare the layout, {FACTORY}, " if factory is None else "build it from the sizes the factory gets, ")
        + "or leave this axis alone",
    )


class _Whole:
    """Counts a run as a whole: torch's own tracker of modules hooks into autograd, which breaks some models.

    Such are those that give a parameter to a module, or take a derivative in the forward pass.
    """

    parents = frozenset({"Global"})

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


def _size(model: nn.Module, example_inputs: Any, call: CallModel | None) -> Size:
    tensors = tensors_of(model).values()
    flops = None
    if example_inputs is not None:
        counter = FlopCounterMode(display=False)
        counter.mod_tracker = _Whole()  # type: ignore[assignment]
        with untouched(model), torch.no_grad(), counter:
            run_model(model, example_inputs, call)
        flops = counter.get_total_flops()
    return Size(sum(p.numel() for p in model.parameters()), sum(t.numel() * t.element_size() for t in tensors), flops)


def _tensor_changes(model: nn.Module, resolved: Resolved) -> tuple[TensorChange, ...]:
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors_of(model).items()}
    return tuple(
        TensorChange(now, shapes[old], edit.shape, edit.new_entries, old if now != old else None)
        for old, edit in resolved.edits.items()
        for now in [moved(old, resolved.plan.depth)]
    )


def _learning_rate_factors(resolved: Resolved, checked: Iterable[CheckedOptimizer]) -> dict[str, float]:
    found = {}
    for check in checked:
        for name, edit in resolved.edits.items():
            factor = learning_rate_factor(edit.dims, check.spec.update_degree) if name in check.owned else None
            if factor not in (None, 1.0):
                found[moved(name, resolved.plan.depth)] = factor
    return found


def _not_kept(
    model: nn.Module,
    new: nn.Module,
    verification: Verification,
    plan: Plan,
    journal: Journal,
    example_inputs: Any,
    call: CallModel | None,
) -> VerificationError:
    """The error for a deviation that rounding does not explain; takes the growth back to find where it begins."""
    way, tolerance = verification.way, verification.tolerance
    random = Runs(new, example_inputs, call).are_random(way, tolerance)
    if journal.keep:
        grown = record(new, example_inputs, way, call=call)
        journal.undo()
        old = record(model, example_inputs, way, call=call)
        where = first_deviation(old, grown, tolerance, lambda path: moved(path, plan.depth))
        verification = replace(verification, first_deviation=where)
    return VerificationError(
        str(verification), f"a relative deviation of at most {tolerance:.1e}", _RANDOM if random else _A_SIZE
    )


_A_SIZE = (
    "most often, forward uses a size as a number, as in 0.5 * self.dim or np.sqrt(self.dim): set such a number once, "
    "self.scale = self.dim**-0.5, and use that; else a module computes with a size of its own: declare its layout, or "
    "leave this axis alone; if it is neither, this is a fault of growkit: please report it"
)
_RANDOM = (
    "the model is random in eval mode: it draws other numbers each time, beside those of dropout, so nothing can be "
    "compared; let it draw none in eval mode, or pass call=lambda model, inputs: ... that gives it fixed numbers"
)
