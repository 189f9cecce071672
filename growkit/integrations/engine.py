"""Growth as a service of growkit's engine."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from growkit.axes.table import AxisTable
from growkit.discovery.discover import discover
from growkit.discovery.inputs import CallModel, Inputs
from growkit.errors import EngineError
from growkit.growth.api import grow
from growkit.growth.depth import Deepen
from growkit.growth.fingerprint import differences, fingerprint_of
from growkit.growth.followers import Follower
from growkit.growth.plan import Plan
from growkit.growth.planning import make_plan
from growkit.growth.rebuild import Factory
from growkit.growth.report import Report
from growkit.growth.width import Methods, Widen
from growkit.optim.rules import NewState
from growkit.train.runtime import Runtime
from growkit.train.step_return import StepCallbackReturn


class Growth:
    """Grows the model of an engine when a callback asks for it.

    `example_inputs`, `layouts`, `call`: as in `growkit.discover`, which runs once when training starts, before
    the model is wrapped; again only for another model, or one that something else has changed. `seed`: of all
    draws; each growth has its own. `new_state`, `rollback`, `factory`: as in `growkit.grow`; with a factory, the
    engine goes on with the new model.

    >>> engine = Engine(model, train_step, data, optimizers=opt, callbacks=[widen_at_1000],
    ...                 services={"growth": gk.Growth(example_inputs=x)})  # doctest: +SKIP
    """

    def __init__(
        self,
        example_inputs: Any,
        *,
        layouts: Mapping[str, str] | None = None,
        call: CallModel | None = None,
        seed: int = 0,
        new_state: NewState = "mean",
        rollback: bool = True,
        factory: Factory | None = None,
    ):
        self.example_inputs, self.layouts, self.call = example_inputs, layouts, call
        self.seed, self.new_state, self.rollback, self.factory = seed, new_state, rollback, factory
        self.done: dict[str, Plan] = {}
        """Plans of the growths so far, by name, in order."""
        self.reports: list[Report] = []
        """Reports of the growths since this object was made."""
        self._runtime: Runtime | None = None
        self._table: AxisTable | None = None
        self._change: StepCallbackReturn | None = None
        self._model: nn.Module | None = None
        """The model that the table is of."""

    @property
    def table(self) -> AxisTable:
        """The axes of the model as it is now."""
        if self._runtime is None:
            raise EngineError("a Growth without a model", "a Growth of an engine that trains", "call engine.fit first")
        return self._discovered(self._runtime.model)

    def request(
        self,
        name: str,
        *,
        widen: Widen | None = None,
        deepen: Deepen | None = None,
        method: Methods = None,
        multiple_of: int | None = None,
        leave: Collection[str] = (),
        config_updates: Mapping[str, object] | None = None,
    ) -> StepCallbackReturn | None:
        """Grows the model now, once per name; what it gives is for the callback to return.

        None if a growth of this name was done before. `widen`, `deepen`, `method`, `multiple_of` and `leave` as in
        `growkit.make_plan`.

        Raises:
            GrowkitError: the growth or a setting is refused; nothing is changed.
        """
        if name in self.done:
            return None
        runtime = self._runtime
        if runtime is None:
            raise EngineError("a request outside of training", "requests from a callback", "call engine.fit")
        updates = dict(config_updates or {})
        runtime.check_updates(updates)
        runtime.ranks.agree("growth.request", f"{name!r}")
        if runtime.is_sharded:
            runtime.drop_wrapper()
        plan = make_plan(
            self.table,
            widen,
            deepen,
            method=method,
            multiple_of=multiple_of,
            seed=self.seed,
            growth=len(self.done),
            leave=leave,
        )
        if runtime.ranks.count > 1:
            digest = hashlib.sha256(plan.to_json().encode()).hexdigest()
            runtime.ranks.agree("growth.request", f"{name!r}, a plan with the digest {digest}")
        runtime.drop_wrapper()
        report = grow(
            runtime.model,
            plan,
            optimizers=tuple(runtime.optimizers.values()),
            followers=runtime.followers,
            example_inputs=self.example_inputs,
            layouts=self.layouts,
            call=self.call,
            new_state=self.new_state,
            rollback=self.rollback,
            factory=self.factory,
        )
        if report.model is not runtime.model:
            runtime.use(report.model)
            runtime.followers = report.followers
        self._model = report.model
        self.layouts = report.layouts
        self._table = report.table
        self.done[name] = plan
        self.reports.append(report)
        self._change = StepCallbackReturn(updated_model=runtime.model, config_updates=updates)
        return self._change

    def attach(self, runtime: Runtime) -> None:
        """Takes over the model that the engine trains; its axes are discovered if they are not known already."""
        if self._model is not runtime.model:
            self.example_inputs = _moved(self.example_inputs, runtime.model)
        self._discovered(runtime.model)
        self._runtime = runtime

    def _discovered(self, model: nn.Module) -> AxisTable:
        """The axes of a model, which is discovered if it is another one, or was changed by something else."""
        if self._model is model and self._table is not None and not differences(model, fingerprint_of(self._table)):
            return self._table
        self._table = discover(model, self.example_inputs, layouts=self.layouts, call=self.call)
        self._model = model
        return self._table

    def take_change(self) -> StepCallbackReturn | None:
        """The change since the last call."""
        change, self._change = self._change, None
        return change

    def replay(self, model: nn.Module) -> nn.Module:
        """The growths so far on a fresh model, structure and draws alike; gives the grown one."""
        for plan in self.done.values():
            model = grow(model, plan, factory=self.factory).model
        return model

    def state_dict(self) -> dict[str, object]:
        """The plans of the growths so far, by name, as JSON texts."""
        return {"done": {name: plan.to_json() for name, plan in self.done.items()}}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Takes over the growths of another run; `replay` gives its structure to a fresh model.

        Raises:
            EngineError: the state is none of a Growth.
            PlanError: a text in it is no plan.
        """
        done = state.get("done")
        if not isinstance(done, Mapping):
            raise EngineError(
                f"as state of a Growth, a mapping with the keys {list(state)}",
                "what Growth.state_dict gives: {'done': {name: JSON text of a plan}}",
                "load the state of a run with this service",
            )
        self.done = {name: Plan.from_json(text) for name, text in done.items()}


def _moved(inputs: Any, model: nn.Module) -> Any:
    """The inputs on the device of the model."""
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    if isinstance(inputs, Inputs):
        return Inputs(*_moved(inputs.args, model), **_moved(inputs.kwargs, model))
    return tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), inputs)


def request_growth(
    model: nn.Module,
    plan: Plan,
    *,
    optimizers: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
    followers: Follower | Iterable[Follower] | None = None,
    example_inputs: Any = None,
    config_updates: Mapping[str, object] | None = None,
    factory: Factory | None = None,
) -> StepCallbackReturn:
    """`growkit.grow`, as what a callback of the engine returns.

    Raises:
        GrowkitError: as `grow`; everything is as before.
    """
    report = grow(
        model, plan, optimizers=optimizers, followers=followers, example_inputs=example_inputs, factory=factory
    )
    return StepCallbackReturn(updated_model=report.model, config_updates=dict(config_updates or {}))
