"""What a run trains: the user's model, what it is wrapped in, and all that follows its parameters."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from growkit.errors import EngineError

Follower = nn.Module | MutableMapping[str, torch.Tensor]


class Runtime:
    """Device, wrapper, schedulers and followers of one run; the engine adds model and optimizers.

    device: where model and batches are moved; None moves nothing.
    wrap: model -> module that is called in training (DistributedDataParallel, torch.compile). It must
        hold the model's own parameters. It is called again after every change of the model.
    unwrap: called with the old wrapper before it is let go, where letting it go is not enough.
    schedulers: LR schedulers, or functions optimizer -> scheduler; each is stepped once per optimizer step.
    followers: modules or mappings of tensors that services change along with the model (EMA copies).

    `model` is always the user's object, `wrapped` what train steps see.

    Raises: EngineError.
    """

    def __init__(
        self,
        *,
        device: torch.device | str | None = None,
        wrap: Callable[[nn.Module], nn.Module] | None = None,
        unwrap: Callable[[nn.Module], object] | None = None,
        schedulers: Sequence[LRScheduler | Callable[[Optimizer], LRScheduler]] = (),
        followers: Sequence[Follower] = (),
    ):
        self.device = None if device is None else torch.device(device)
        self.followers = tuple(followers)
        self.schedulers: tuple[LRScheduler, ...] = ()
        self.optimizers: tuple[Optimizer, ...] = ()
        self._wrap, self._unwrap = wrap, unwrap
        self._schedulers_given = tuple(schedulers)
        self._model: nn.Module | None = None
        self._wrapped: nn.Module | None = None
        self._computing = False
        self._check_updates: Callable[[Mapping[str, object]], object] | None = None

    @property
    def model(self) -> nn.Module:
        """The user's own module, never wrapped."""
        if self._model is None:
            raise EngineError("a Runtime without a model", "a Runtime that an Engine was made with", "make the Engine")
        return self._model

    @property
    def wrapped(self) -> nn.Module:
        """The module to call in training; the model itself where nothing wraps it."""
        return self.model if self._wrapped is None else self._wrapped

    @property
    def optimizer(self) -> Optimizer:
        """The only optimizer."""
        (optimizer,) = self.optimizers
        return optimizer

    def check_updates(self, updates: Mapping[str, object]) -> None:
        """Whether the engine would accept these config updates: for services that change the model before it can.

        Raises: SettingsError; EngineError inside a step or an evaluation, where the model may not change.
        """
        if self._check_updates is None:
            raise EngineError(
                "a Runtime without an Engine", "a Runtime that an Engine was made with", "make the Engine"
            )
        if self._computing:
            raise EngineError(
                "a change of the model inside a step or an evaluation",
                "changes between complete steps, while no gradient is alive",
                "ask for it in a train_step_callback or a train_epoch_callback",
            )
        self._check_updates(updates)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """A step or an evaluation is under way inside the context."""
        before, self._computing = self._computing, True
        try:
            yield
        finally:
            self._computing = before

    def let_engine_check(self, check: Callable[[Mapping[str, object]], object]) -> None:
        """Gives the check of `check_updates`, which raises for updates that are refused."""
        self._check_updates = check

    def bind(self, model: nn.Module, optimizers: Optimizer | Callable[[nn.Module], Optimizer]) -> None:
        """Takes over the model, on the device, and makes optimizer and schedulers where functions were given."""
        if self._model is not None:
            raise EngineError("a Runtime that has a model", "one Runtime per Engine", "make another Runtime")
        self.use(model)
        optimizer: Any = optimizers if isinstance(optimizers, Optimizer) else _made(optimizers, model)
        _check_optimizer(optimizer, model)
        self.optimizers = (optimizer,)
        self.schedulers = tuple(_scheduler(given, optimizer) for given in self._schedulers_given)

    def use(self, model: nn.Module) -> None:
        """Makes `model` the one to train; `rebuild` has to follow."""
        self.drop_wrapper()
        self._model = model if self.device is None else model.to(self.device)

    def drop_wrapper(self) -> None:
        """Lets the wrapper go, with all that it holds of an older structure."""
        if self._wrapped is None:
            return
        if self._unwrap is not None:
            self._unwrap(self._wrapped)
        self._wrapped = None
        gc.collect()  # DistributedDataParallel sits in reference cycles, and its reducer holds the old parameters

    def ensure_wrapped(self) -> None:
        """Wraps the model again if a service dropped the wrapper and then changed nothing."""
        if self._wrap is not None and self._wrapped is None:
            self.rebuild()

    def rebuild(self) -> None:
        """Drops the wrapper and wraps the model as it is now."""
        self.drop_wrapper()
        if self._wrap is None:
            return
        wrapped = self._wrap(self.model)
        if not isinstance(wrapped, nn.Module):
            raise EngineError(
                f"wrap returned {type(wrapped).__name__}",
                "the module to call in training",
                "return the wrapped model from wrap",
            )
        foreign = _ids(self.model) - _ids(wrapped)
        if foreign:
            raise EngineError(
                f"wrap returned a module without {len(foreign)} of the model's parameters",
                "a module that holds the model's own parameters, not copies of them",
                "wrap the model itself, without a deepcopy",
            )
        self._wrapped = wrapped

    def clear_gradients(self) -> None:
        """No gradient of model or optimizers stays alive."""
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        self.model.zero_grad(set_to_none=True)

    def enter_training(self) -> None:
        """Puts the model in training mode; submodules in eval mode inside a model in training mode are kept so."""
        if not self.model.training:
            self.model.train()

    def parameter_count(self) -> int:
        """Number of the model's parameter entries, shared ones once."""
        return sum(parameter.numel() for parameter in self.model.parameters())


def _ids(module: nn.Module) -> set[int]:
    return {id(parameter) for parameter in module.parameters()}


def _made(optimizers: object, model: nn.Module) -> object:
    if isinstance(optimizers, type) or not callable(optimizers):
        what = f"the class {optimizers.__name__}" if isinstance(optimizers, type) else f"a {type(optimizers).__name__}"
        raise EngineError(
            f"{what} as optimizers",
            "one torch.optim.Optimizer, or a function of the model that returns one",
            "pass optimizers=lambda model: torch.optim.AdamW(model.parameters(), lr=1e-3)",
        )
    return optimizers(model)


def _check_optimizer(optimizer: object, model: nn.Module) -> None:
    if not isinstance(optimizer, Optimizer):
        raise EngineError(
            f"the function for optimizers returned {type(optimizer).__name__}",
            "one torch.optim.Optimizer",
            "return the optimizer",
        )
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is closure.empty:
        raise EngineError(
            f"{type(optimizer).__name__}, whose step needs a closure",
            "an optimizer that steps once on the gradients it finds",
            "use another optimizer, such as AdamW",
        )
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    if held.isdisjoint(_ids(model)):
        raise EngineError(
            f"{type(optimizer).__name__} holds none of the model's parameters",
            "an optimizer made from this very model's parameters",
            "make it from model.parameters(), or pass optimizers=lambda model: ...",
        )


def _scheduler(given: LRScheduler | Callable[[Optimizer], LRScheduler], optimizer: Optimizer) -> LRScheduler:
    scheduler = given if isinstance(given, LRScheduler) else given(optimizer)
    if not isinstance(scheduler, LRScheduler) or isinstance(scheduler, ReduceLROnPlateau):
        raise EngineError(
            f"{type(scheduler).__name__} as a scheduler",
            "an LRScheduler that is stepped once per optimizer step, without a metric",
            "pass one of torch.optim.lr_scheduler, or change learning_rate from a callback",
        )
    if scheduler.optimizer is not optimizer:
        raise EngineError(
            f"{type(scheduler).__name__} of another optimizer",
            "schedulers of the engine's optimizer",
            "pass a function: schedulers=[lambda optimizer: ...]",
        )
    return scheduler
