"""Small networks, a few steps of training, and pictures of everything that a growth may change."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from growkit.nn import ConformerClassifier, ConformerEncoder
from growkit.testing import randomise


class Branch(nn.Module):
    """x + down(tanh(up(norm(x))))"""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.tanh(self.up(self.norm(x))))


class Residual(nn.Module):
    """A projection, residual branches, a projection: `'batch 3' -> 'batch 2'`."""

    def __init__(self, width: int = 4, hidden: int = 5, blocks: int = 2):
        super().__init__()
        self.first = nn.Linear(3, width)
        self.blocks = nn.ModuleList(Branch(width, hidden) for _ in range(blocks))
        self.last = nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


class Tied(nn.Module):
    """A language model with one table for reading and writing: `'batch time' -> 'batch time 7'`."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.up = nn.Linear(4, 5)
        self.down = nn.Linear(5, 4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.down(torch.tanh(self.up(self.embedding(tokens)))))


class Gives(nn.Module):
    """Whatever it is told to give."""

    def __init__(self, make: Callable[[Tensor], Any]):
        super().__init__()
        self.make = make

    def forward(self, x: Tensor) -> Any:
        return self.make(x)


def residual(**sizes: int) -> Residual:
    return randomise(Residual(**sizes).double())


def mlp() -> nn.Sequential:
    """Sizes 3, 5, 4, 2, nothing but activations between."""
    layers = [nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2)]
    return randomise(nn.Sequential(*layers).double())


def conformer(layers: int = 1) -> ConformerClassifier:
    encoder = ConformerEncoder(3, 4, 5, 2, layers, 3, position_dim=4)
    return randomise(ConformerClassifier(encoder, 3).double())


def rows(count: int = 6, seed: int = 0) -> Tensor:
    return torch.randn(count, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def utterances(seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, 5, 3, generator=generator, dtype=torch.float64), torch.tensor([5, 4])


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 3, first: int = 0) -> list[float]:
    """Steps towards small outputs on random rows; the losses."""
    losses = []
    for step in range(first, first + steps):
        loss = (model(rows(seed=step)) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    optimizer.zero_grad()
    return losses


def plain(value: Any) -> Any:
    """Tensors as tuples of dtype, shape, strides and entries, so that == compares them bit by bit."""
    if isinstance(value, Tensor):
        bits = tuple(value.detach().contiguous().view(-1).view(torch.uint8).tolist()) if value.dim() else value.item()
        return value.dtype, tuple(value.shape), value.stride(), value.requires_grad, bits
    if isinstance(value, dict):
        return [(key, plain(entry)) for key, entry in value.items()]
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return value


def picture(
    model: nn.Module,
    optimizers: Iterable[torch.optim.Optimizer] = (),
    followers: Iterable[Any] = (),
    schedulers: Iterable[Any] = (),
) -> Any:
    """Everything that a growth may touch: equal pictures mean bit-equal objects, in the same order, and RNG."""
    held = {id(parameter): name for name, parameter in model.named_parameters()}
    return [
        [(path, type(m).__qualname__, m.training, _numbers(m)) for path, m in model.named_modules()],
        [(name, id(p), plain(p)) for name, p in model.named_parameters(remove_duplicate=False)],
        [(name, plain(b)) for name, b in model.named_buffers(remove_duplicate=False)],
        [[held.get(id(p), id(p)) for p in group["params"]] for o in optimizers for group in o.param_groups],
        [plain(o.state_dict()) for o in optimizers],
        [plain(f.state_dict() if isinstance(f, nn.Module) else f) for f in followers],
        [plain({k: v for k, v in s.state_dict().items() if not callable(v)}) for s in schedulers],
        plain(torch.get_rng_state()),
    ]


def _numbers(module: nn.Module) -> dict[str, Any]:
    kept = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    return copy.deepcopy({name: value for name, value in kept.items() if isinstance(value, int | tuple | str)})
