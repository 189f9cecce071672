"""Networks that are built from a config, as those of other libraries are."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from growkit.growth import configs
from growkit.growth.configs import ConfigFamily
from growkit.nn.contents import qualified_name
from growkit.testing import randomise
from tests.growth.nets import Branch


class Config:
    """Entries by name."""

    def __init__(self, **entries: Any):
        vars(self).update(entries)


def sizes(**entries: Any) -> Config:
    return Config(**{"width": 4, "hidden": 5, "layers": 2, "unused": 4, "name": "net"} | entries)


class Net(nn.Module):
    """`'batch 3' -> 'batch 2'`; `hidden` may be a number, one for each layer, or None: twice the width."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.width = config.width
        hidden = config.hidden if config.hidden is not None else 2 * config.width
        each = hidden if isinstance(hidden, list) else [hidden] * config.layers
        self.first = nn.Linear(3, config.width)
        self.blocks = nn.ModuleList(Branch(config.width, h) for h in each)
        self.last = nn.Linear(config.width, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


class Scaled(Net):
    """Sets a factor by its width."""

    def __init__(self, config: Config):
        super().__init__(config)
        self.scale = config.width**-0.5

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x * self.scale)


class Tabled(Net):
    """Has a table that it computes and does not save, of its width."""

    def __init__(self, config: Config):
        super().__init__(config)
        self.register_buffer("table", torch.arange(config.width) / config.width, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * self.table.sum()


class Reader(Net):
    """Computes with an entry of its config as with a number."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * self.config.width


class Strict(Net):
    """Refuses a width of 8."""

    def __init__(self, config: Config):
        if config.width == 8:
            raise ValueError("a width of 8 will not do")
        super().__init__(config)


class Wrapper(nn.Module):
    """Holds a network that was built from a config."""

    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


def entries_of(config: Config) -> dict[str, Any]:
    return {name: entries_of(v) if isinstance(v, Config) else copy.deepcopy(v) for name, v in vars(config).items()}


def config_of(entries: dict[str, Any]) -> Config:
    return Config(**{name: config_of(v) if isinstance(v, dict) else v for name, v in entries.items()})


@contextmanager
def known() -> Iterator[None]:
    """Inside, growkit knows `Config`."""
    name = qualified_name(Config)
    configs.CONFIGS[name] = ConfigFamily("config", entries_of, lambda config, entries: config_of(entries))
    try:
        yield
    finally:
        del configs.CONFIGS[name]


def built(kind: type[nn.Module], **entries: Any) -> Any:
    return randomise(kind(sizes(**entries)).double())


def rebuilt(model: Any) -> nn.Module:
    """A new model of the class and config of another, with its state."""
    other = type(model)(model.config).double()
    other.load_state_dict(model.state_dict(), strict=True)
    return other
