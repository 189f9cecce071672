"""What a run trains: the user's model, what it is wrapped in, and all that follows its parameters."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from growkit.errors import EngineError
from growkit.train.averages import Averages
from growkit.train.likeness import slots, trained
from growkit.train.optimizers import (
    OptimizersGiven,
    SchedulerGiven,
    made_schedulers,
    named_optimizers,
    schedulers_by_name,
)
from growkit.train.precision import LossScaling, loss_scaling
from growkit.train.ranks import Ranks
from growkit.train.runtime_checks import check_runtime, device_of
from growkit.train.scheduler_state import load_schedulers_state, schedulers_state
from growkit.train.sharding import Shard, Sharding
from growkit.train.wrapping import checked_wrapper

Follower = nn.Module | MutableMapping[str, torch.Tensor]


class Runtime:
    """Device, wrapper, schedulers and followers of one run; the engine adds model and optimizers.

    device: where model and batches are moved; None moves nothing.
    wrap: model -> module that is called in training (DistributedDataParallel, torch.compile). It must
        hold the model's own parameters. It is called again after every change of the model.
    unwrap: called with the old wrapper before it is let go, where letting it go is not enough.
    shard: applies FSDP2 to the model in place (`torch.distributed.fsdp.fully_shard`), in place of `wrap`.
        While the model changes it is whole again on every rank, and a new instance.
    schedulers: LR schedulers, or functions optimizer -> scheduler; each is stepped once per step of its optimizer,
        or told evaluations (`ReduceOnEvaluation`).
        Functions for one of several optimizers come in a dict: its name -> a list of them.
    followers: modules or mappings of tensors that services change along with the model (EMA copies).
    scaler: of losses with precision="fp16"; one with torch's defaults unless given.

    `model` is always the user's object, `wrapped` what train steps see.

    Raises: EngineError.
    """

    def __init__(
        self,
        *,
        device: torch.device | str | None = None,
        wrap: Callable[[nn.Module], nn.Module] | None = None,
        unwrap: Callable[[nn.Module], object] | None = None,
        shard: Shard | None = None,
        schedulers: Sequence[SchedulerGiven] | Mapping[str, Sequence[SchedulerGiven]] = (),
        followers: Sequence[Follower] = (),
        scaler: GradScaler | None = None,
    ):
        check_runtime(wrap=wrap, unwrap=unwrap, shard=shard, schedulers=schedulers, followers=followers)
        self.device = device_of(device)
        self.followers = tuple(followers)
        self.schedulers: dict[str, tuple[LRScheduler, ...]] = {}
        """Of each optimizer, by its name."""
        self.optimizers: dict[str, Optimizer] = {}
        """By name, in the order in which they were given."""
        self.ranks = Ranks()
        """The processes that train together."""
        self._sharding = None if shard is None else Sharding(shard)
        self.scaling: LossScaling | None = None
        """Of losses, with precision="fp16"."""
        self.averages: Averages | None = None
        """Of the weights, with ema_decay; a follower too."""
        self._wrap, self._unwrap, self._scaler = wrap, unwrap, scaler
        self._schedulers = schedulers
        self.schedulers_given: Mapping[str, Sequence[SchedulerGiven]] = {}
        """The schedulers, or functions, of each optimizer, by its name."""
        self._model: nn.Module | None = None
        self._wrapped: nn.Module | None = None
        self._wrapped_for = ""
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
    def only_name(self) -> str:
        """The name of the only optimizer."""
        if len(self.optimizers) != 1:
            raise EngineError(
                f"the optimizer of a run with {len(self.optimizers)}: {', '.join(self.optimizers)}",
                "one of several optimizers by its name",
                "use optimizers['name']",
            )
        (name,) = self.optimizers
        return name

    @property
    def optimizer(self) -> Optimizer:
        """The only optimizer."""
        return self.optimizers[self.only_name]

    @property
    def is_sharded(self) -> bool:
        """Whether the model is in shards while it trains; `drop_wrapper`, on all ranks, makes it whole."""
        return self._sharding is not None

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
        self.check_raw("a change of the model")
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

    def bind(self, model: nn.Module, optimizers: OptimizersGiven) -> None:
        """Takes over the model, on the device, and makes optimizers and schedulers where functions were given."""
        if self._model is not None:
            raise EngineError("a Runtime that has a model", "one Runtime per Engine", "make another Runtime")
        self.use(model)
        self.optimizers = named_optimizers(optimizers, model)
        self.schedulers_given = schedulers_by_name(self._schedulers, self.optimizers)
        self.schedulers = made_schedulers(self.schedulers_given, self.optimizers)

    def equip(self, *, precision: str | None, averages: bool) -> None:
        """Adds what settings ask for beside model and optimizers.

        Raises: EngineError for a model that the precision is not for.
        """
        if precision == "fp16":
            self.scaling = loss_scaling(self.model, self._scaler)
        if averages and self._sharding is not None:
            raise EngineError("ema_decay beside Runtime(shard=...)", "one of them", "use DistributedDataParallel")
        if averages:
            self.averages = Averages(self.model)
            self.followers = (*self.followers, self.averages)

    def refit_averages(self) -> None:
        """Starts averages anew for another structure of the model, whose own are to be loaded."""
        if self.averages is not None:
            others = [one for one in self.followers if one is not self.averages]
            self.averages = Averages(self.model)
            self.followers = (*others, self.averages)

    def close_unit(self) -> None:
        """A unit of work ended, if only by an exception."""
        if self.scaling is not None:
            self.scaling.close()

    def advance_averages(self, decay: float) -> None:
        """Adds the weights to their averages, where there are any."""
        if self.averages is not None:
            self.averages.advance(self.model, decay)

    @contextmanager
    def averaged(self) -> Iterator[nn.Module]:
        """The model with the averages for weights; afterwards it has its own again, bit for bit.

        Raises: EngineError without averages, and for what may not see them inside: `fit`, growth, `state_dict`.
        """
        if self.averages is None:
            raise EngineError("averages of a run that keeps none", "a run with ema_decay", "set ema_decay=0.999")
        with self.averages.inside(self.model):
            yield self.model

    def check_raw(self, what: str) -> None:
        """Refuses what would take averages for the model's own weights.

        Raises: EngineError inside of `averaged`.
        """
        if self.averages is not None:
            self.averages.check_outside(what)

    def state_dict(self) -> dict[str, Any]:
        """The states of schedulers, loss scale and averages; None for what the run does not have.

        Raises: EngineError inside of `averaged`.
        """
        self.check_raw("a saved state")
        return {
            "schedulers": schedulers_state(self.schedulers),
            "scaling": None if self.scaling is None else self.scaling.state_dict(),
            "averages": None if self.averages is None else self.averages.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state that `state_dict` returned; what the run or the state does not have starts anew.

        Raises: EngineError for averages of another structure, and schedules of another length.
        """
        self.check_raw("a loaded state")
        load_schedulers_state(self.schedulers, state["schedulers"])
        if self.averages is not None and state["averages"] is not None:
            self.averages.load_state_dict(state["averages"])
        if self.scaling is not None and state["scaling"] is not None:
            self.scaling.load_state_dict(state["scaling"])

    @contextmanager
    def unwrapped(self) -> Iterator[nn.Module]:
        """The model without its wrapper, for a change; afterwards it is wrapped anew.

        Raises: EngineError, at the end, where the averages did not follow the change.
        """
        self.check_raw("a change of the model")
        self.drop_wrapper()
        try:
            yield self.model
        finally:
            self.rebuild()

    @contextmanager
    def synchronizing(self, wanted: bool) -> Iterator[None]:
        """Forward and backward passes inside meet those of other processes, where the wrapper has any, if wanted."""
        no_sync = None if wanted else getattr(self._wrapped, "no_sync", None)
        with no_sync() if callable(no_sync) else nullcontext():
            yield

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
        if self._sharding is not None:
            self._model = self._sharding.gather(self.model, self.optimizers.values())
        self._wrapped = None
        gc.collect()  # DistributedDataParallel sits in reference cycles, and its reducer holds the old parameters

    @property
    def is_wrapped_as_it_is(self) -> bool:
        """Whether there is nothing to wrap again: wrappers ask once which parameters need a gradient."""
        if self._wrap is None and self._sharding is None:
            return True
        return self._wrapped is not None and self._wrapped_for == trained(self.model)

    def rebuild(self) -> None:
        """Drops the wrapper and wraps the model as it is now."""
        self.drop_wrapper()
        if self.averages is not None:
            self.averages.check_follows(self.model)
        self._wrapped_for = trained(self.model)
        if self._sharding is not None:
            self._sharding.shard(self.model, self.optimizers.values())
            self._wrapped = self.model
        if self._wrap is None:
            return
        self._wrapped = checked_wrapper(self._wrap(self.model), self.model)

    def share(self) -> None:
        """Gives every rank the weights, buffers and optimizer state of rank 0."""
        moved = [value for optimizer in self.optimizers.values() for _, value in slots(optimizer)]
        self.ranks.broadcast([*self.model.parameters(), *self.model.buffers(), *moved, *(self.averages or {}).values()])

    def clear_gradients(self) -> None:
        """No gradient of model or optimizers stays alive."""
        for optimizer in self.optimizers.values():
            optimizer.zero_grad(set_to_none=True)
        if self.scaling is not None:
            self.scaling.forget(*self.optimizers)
        self.model.zero_grad(set_to_none=True)

    def enter_training(self) -> None:
        """Puts the model in training mode; submodules in eval mode inside a model in training mode are kept so."""
        if not self.model.training:
            self.model.train()

    def parameter_count(self) -> int:
        """Number of the model's parameter entries, shared ones once."""
        return sum(parameter.numel() for parameter in self.model.parameters())
