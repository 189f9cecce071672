"""Other optimizers for a run that goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from growkit.errors import EngineError
from growkit.train.learning_rate import check_learning_rate, rates_by_optimizer, set_learning_rate
from growkit.train.optimizers import ONLY, OptimizersGiven, made_schedulers, named_optimizers
from growkit.train.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Replacement:
    """Optimizers that take the place of those of the same names, and their schedulers."""

    optimizers: Mapping[str, Optimizer]
    schedulers: Mapping[str, Sequence[LRScheduler]]

    def commit(self, runtime: Runtime) -> str:
        """Puts them in force, and says so."""
        change = ", ".join(
            f"{name}: {type(runtime.optimizers[name]).__name__} -> {type(new).__name__}"
            for name, new in self.optimizers.items()
        )
        runtime.optimizers.update(self.optimizers)
        runtime.schedulers.update({name: tuple(made) for name, made in self.schedulers.items()})
        runtime.clear_gradients()
        return f"optimizer changed: {change}"


def plan_replacement(runtime: Runtime, given: OptimizersGiven, model: nn.Module, rate: object) -> Replacement:
    """The optimizers that are new among those given, made for `model`; nothing in force is changed.

    Their schedulers are made anew, and `rate` is set, as when an Engine is made.

    Raises: EngineError for unknown names, and for schedulers that cannot be made anew; SettingsError.
    """
    named = named_optimizers(given, model)
    if list(named) == [ONLY] and len(runtime.optimizers) == 1:
        named = {runtime.only_name: named[ONLY]}
    if unknown := [name for name in named if name not in runtime.optimizers]:
        raise EngineError(
            f"new optimizers with the names {', '.join(map(repr, unknown))}",
            f"the names of this run's optimizers: {', '.join(runtime.optimizers)}",
            "return a dict of those to replace, by these names",
        )
    new = {name: one for name, one in named.items() if one is not runtime.optimizers[name]}
    kept = {id(one) for name, one in runtime.optimizers.items() if name not in new}
    if twice := [name for name, one in new.items() if id(one) in kept]:
        raise EngineError(
            f"the optimizer of another name for {', '.join(map(repr, twice))}",
            "an optimizer of its own for each name",
            "make another one",
        )
    schedulers = made_schedulers({name: runtime.schedulers_given.get(name, ()) for name in new}, new)
    rates = {name: value for name, value in rates_by_optimizer(rate, runtime.optimizers).items() if name in new}
    for name, value in rates.items():
        check_learning_rate(new[name], schedulers[name], value)
    for name, value in rates.items():
        set_learning_rate(new[name], schedulers[name], value)
    return Replacement(new, schedulers)
