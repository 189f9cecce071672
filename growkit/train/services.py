"""What the engine asks of a service: something that acts on the model when a callback asks it to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from torch import nn

from growkit.errors import EngineError
from growkit.train.runtime import Runtime
from growkit.train.step_return import StepCallbackReturn


@runtime_checkable
class Service(Protocol):
    """A service is handed to callbacks and train steps under its name in `Engine(services=...)`.

    It may change the model in place while a callback runs: `runtime.check_updates` for settings it
    means to change along, `runtime.drop_wrapper` for what holds the old parameters, then the model,
    `runtime.optimizers` and `runtime.followers`; or put a new one there, `runtime.use`. It says so through
    `take_change`.
    """

    def attach(self, runtime: Runtime) -> None:
        """Called at the start of every `fit`, before the model is wrapped, and for every new model instance."""

    def take_change(self) -> StepCallbackReturn | None:
        """The change asked for since the last call, or None; called after every callback.

        If the callback returns the same object, the change is made once. If it forgot to, it is made
        all the same.
        """

    def replay(self, model: nn.Module) -> nn.Module:
        """Repeats on a fresh model the structural changes of the loaded state; gives the model to go on with."""

    def state_dict(self) -> dict[str, object]:
        """What `load_state_dict` needs to go on."""

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Takes over a state that `state_dict` returned."""


def check_services(services: Mapping[str, Service], taken: Iterable[str]) -> None:
    """Refuses a name that the engine itself offers, and an object without the service methods.

    Raises: EngineError.
    """
    methods = ("attach", "take_change", "replay", "state_dict", "load_state_dict")
    for name, service in services.items():
        if name in set(taken):
            raise EngineError(
                f"a service named {name!r}", f"any name but {', '.join(sorted(taken))}", "give the service another name"
            )
        if isinstance(service, type):
            raise EngineError(
                f"the class {service.__name__} as the service {name!r}",
                "an object",
                f"make one: {service.__name__}(...)",
            )
        missing = [method for method in methods if not callable(getattr(service, method, None))]
        if missing:
            raise EngineError(
                f"the service {name!r} ({type(service).__name__}) without {', '.join(missing)}",
                f"an object with the methods {', '.join(methods)}",
                "add the missing methods, or hand the object to the callback in another way",
            )
