"""What a training callback may return."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from torch import nn

from growkit.errors import EngineError, SettingsError
from growkit.train.optimizers import OptimizersGiven

_STATE_CHOICES = ("transfer", "reset")


@dataclass(frozen=True, kw_only=True, slots=True)
class StepCallbackReturn:
    """A change that the engine makes at the point where the callback returned it.

    Raises: EngineError where a field is of the wrong type or has an unknown value.
    """

    updated_model: nn.Module | None = None
    """The model to train from here on: the same instance, changed in place together with its
    optimizer state (as `growth.request` does), or a new instance."""
    config_updates: Mapping[str, object] = field(default_factory=dict)
    """New values of settings, by name. They stay until the next change."""
    optimizer_state: str = "transfer"
    """Only for a new instance. "transfer": each parameter takes over the state of the one of the same
    name, shape and dtype; "reset": the state starts empty."""
    parameter_map: Mapping[str, str] | None = None
    """Only for a new instance: new name -> old name of parameters that were renamed."""
    optimizers: OptimizersGiven | None = None
    """Optimizers to step with from here on, in place of those of the same names: one where there is only one, a dict,
    or a function of the (updated) model that returns either. Their schedulers are made anew; counters go on."""

    def __post_init__(self) -> None:
        if self.updated_model is not None and not isinstance(self.updated_model, nn.Module):
            raise EngineError(
                f"updated_model is a {type(self.updated_model).__name__}",
                "a torch.nn.Module, or None for no change",
                "return the model itself",
            )
        if not isinstance(self.config_updates, Mapping):
            raise EngineError(
                f"config_updates is a {type(self.config_updates).__name__}",
                "a dict from the name of a setting to its new value",
                "write config_updates={'learning_rate': 1e-3}",
            )
        check_optimizer_state(self.optimizer_state)


def check_optimizer_state(given: str) -> None:
    """Whether it says what becomes of the state of optimizers.

    Raises: EngineError.
    """
    if given not in _STATE_CHOICES:
        raise EngineError(f"optimizer_state={given!r}", " or ".join(map(repr, _STATE_CHOICES)), "give one of them")


def merge_returns(changes: Iterable[StepCallbackReturn]) -> StepCallbackReturn | None:
    """One change that says all that `changes` say, None if there are none.

    Raises: EngineError for two models, SettingsError for two values of one setting.
    """
    merged: StepCallbackReturn | None = None
    for change in changes:
        merged = change if merged is None else _merge(merged, change)
    return merged


def _same(one: object, other: object) -> bool:
    """Whether two values are one; those that are no plain numbers or texts may not be comparable."""
    return one is other or (isinstance(one, int | float | str) and type(one) is type(other) and one == other)


def _merge(one: StepCallbackReturn, other: StepCallbackReturn) -> StepCallbackReturn:
    models = [change for change in (one, other) if change.updated_model is not None]
    if len(models) == 2 and models[0].updated_model is not models[1].updated_model:
        raise EngineError(
            "a service changed the model, and the callback returned another one",
            "one updated_model per callback",
            "return the service's result, or make the new model without the service",
        )
    optimizers = [change.optimizers for change in (one, other) if change.optimizers is not None]
    if len(optimizers) == 2 and optimizers[0] is not optimizers[1]:
        raise EngineError("two new optimizers of one callback", "one change of the optimizers", "return one of them")
    for name in one.config_updates.keys() & other.config_updates.keys():
        if not _same(one.config_updates[name], other.config_updates[name]):
            raise SettingsError(
                f"{name} is set to {one.config_updates[name]!r} and to {other.config_updates[name]!r} by one callback",
                "one value per setting",
                "set it in one place",
            )
    model_change = models[-1] if models else other
    return StepCallbackReturn(
        updated_model=model_change.updated_model,
        config_updates={**one.config_updates, **other.config_updates},
        optimizer_state=model_change.optimizer_state,
        parameter_map=model_change.parameter_map,
        optimizers=optimizers[0] if optimizers else None,
    )
