"""Runs of one rank of two, and the same in one process on the joint batch."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import torch
from rich.console import Console
from torch import nn
from torch.nn.parallel import DistributedDataParallel as Ddp

import growkit as gk
from growkit.nn import ConformerClassifier, ConformerEncoder
from growkit.train import Engine, Runtime, Settings, StepCallbackReturn
from growkit.train.likeness import slots
from growkit.train.sharding import whole_tensor

RANKS = 2
QUIET = Console(quiet=True)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(5, 7), nn.Linear(7, 5)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(x)))


class Net(nn.Module):
    """A tied table, blocks, and a frozen gain."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(9, 5)
        self.blocks = nn.Sequential(Residual())
        self.gain = nn.Parameter(torch.full((5,), 1.25), requires_grad=False)
        self.head = nn.Linear(5, 9, bias=False)
        self.head.weight = self.table.weight

    def forward(self, tokens):
        return self.head(self.blocks(self.table(tokens)) * self.gain)


def make_net(seed: int = 3) -> Net:
    torch.manual_seed(seed)
    return Net().double()


def data(rank: int | None, batches: int = 8) -> list[torch.Tensor]:
    """Tokens (rows, 2): input and target; of one rank every second row, so that both together are the joint batch."""
    generator = torch.Generator().manual_seed(5)
    whole = [torch.randint(9, (8, 2), generator=generator) for _ in range(batches)]
    return whole if rank is None else [batch[rank::RANKS] for batch in whole]


def step(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(batch[:, 0]), batch[:, 1])


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.03)


def grow_twice(step: int, growth: gk.Growth) -> StepCallbackReturn | None:
    """Width and depth in the middle of the first epoch, width again at its end."""
    if step >= 6:
        return growth.request("wider", widen={"blocks.0.up.weight[0]": 2.0})
    if step >= 2:
        return growth.request("both", widen={"blocks.0.up.weight[0]": 11}, deepen={"blocks": 3})
    return None


def digest(engine: Engine) -> str:
    """Of weights, buffers and optimizer state, bit for bit."""
    tensors = [*engine.model.parameters(), *engine.model.buffers()]
    tensors += [value for optimizer in engine.optimizers.values() for _, value in slots(optimizer)]
    return hashlib.sha256(b"".join(whole_tensor(t.detach()).numpy().tobytes() for t in tensors)).hexdigest()


class Digests:
    """A digest after each growth."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.engine: Engine | None = None

    def on_growth(self) -> None:
        self.seen.append(digest(self.engine))


def train(rank: int | None, runtime: Runtime | None = None, **given: Any) -> dict[str, Any]:
    """A run over two epochs, or the rest of one: digests after growths and at the end, weights and slots as numbers."""
    digests = Digests()
    given = {
        "model": make_net(),
        "train_step": step,
        "train_data": data(rank),
        "optimizers": adam,
        "callbacks": [grow_twice],
        "services": {"growth": gk.Growth(torch.arange(4))},
        "settings": Settings(gradient_clip_norm=0.5),
    } | given
    resume = given.pop("resume", None)
    given["callbacks"] = [*given["callbacks"], digests]
    engine = digests.engine = Engine(**given, runtime=runtime, console=QUIET)
    engine.fit(2, resume=resume)
    engine.runtime.drop_wrapper()
    weights = {name: value.tolist() for name, value in engine.model.named_parameters()}
    moments = [value.tolist() for optimizer in engine.optimizers.values() for _, value in slots(optimizer)]
    return {"digests": [*digests.seen, digest(engine)], "weights": weights, "slots": moments}


def unfreeze(step: int, model: Net) -> None:
    if step == 3:
        model.gain.requires_grad_(True)


def of_all(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=0.03)


class Reader(nn.Module):
    """A recurrent layer and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.GRU(3, 5, batch_first=True), nn.Linear(5, 1)

    def forward(self, x, state=None):
        hidden, state = self.rnn(x, state)
        return self.head(hidden), state


def read(model: nn.Module, batch: Any, carry: Any, optimizer: str) -> Any:
    out, state = model(batch["x"], carry)
    return (out - batch["y"]).square().mean() * (2.0 if optimizer == "head" else 1.0), state


def reading(rank: int | None) -> dict[str, Any]:
    """Truncated backpropagation through time with two optimizers, and a growth."""
    torch.manual_seed(4)
    generator = torch.Generator().manual_seed(6)

    def draw(size: int) -> torch.Tensor:
        whole = torch.randn(4, 7, size, generator=generator, dtype=torch.float64)
        return whole if rank is None else whole[rank::RANKS]

    def grow(step: int, growth: gk.Growth) -> StepCallbackReturn | None:
        return growth.request("wide", widen={"rnn.weight_hh_l0[1]": 8}) if step >= 2 else None

    return {
        "model": Reader().double(),
        "train_step": read,
        "train_data": [{"x": draw(3), "y": draw(1)} for _ in range(4)],
        "optimizers": lambda model: {
            "rnn": torch.optim.Adam(model.rnn.parameters(), lr=0.02),
            "head": torch.optim.SGD(model.head.parameters(), lr=0.1, momentum=0.9),
        },
        "callbacks": [grow],
        "services": {"growth": gk.Growth(torch.zeros(2, 4, 3, dtype=torch.float64))},
        "settings": Settings(truncated_bptt_steps=3, time_dims={"x": 1, "y": 1}),
    }


def conformer(rank: int | None) -> dict[str, Any]:
    """growkit's Conformer, whose stream, heads and blocks grow; `growth.request` names roles."""
    torch.manual_seed(8)
    encoder = ConformerEncoder(3, model_dim=6, ffn_dim=5, num_heads=3, num_layers=1, kernel_size=3)
    model = ConformerClassifier(encoder, 4).double()
    model.encoder.input_projection.bias.requires_grad_(False)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.eval()  # In training each rank has statistics of its own batches.
    lengths = torch.tensor([7, 6, 5, 4])
    generator = torch.Generator().manual_seed(9)
    whole = [
        (torch.randn(4, 7, 3, generator=generator).double(), lengths, torch.randint(4, (4,), generator=generator))
        for _ in range(4)
    ]
    mine = whole if rank is None else [tuple(part[rank::RANKS] for part in batch) for batch in whole]

    def grow(step: int, growth: gk.Growth) -> Any:
        if step < 2:
            return None
        widen = {"encoder.input_projection.weight[0]": 2.0, "ffn_dim": 8, "num_heads": 2.0}
        return growth.request("both", widen=widen, deepen={"encoder.layers": 2})

    return {
        "model": model,
        "train_step": lambda model, batch: nn.functional.cross_entropy(model(batch[0], batch[1]), batch[2]),
        # Adam would divide the rounding errors of gradients that are zero (biases of keys) by their own size.
        "optimizers": lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        "train_data": mine,
        "callbacks": [grow],
        "services": {"growth": gk.Growth(gk.Inputs(whole[0][0], lengths))},
    }


FLAVOURS: Mapping[str, Callable[[int | None], dict[str, Any]]] = {
    "plain": lambda rank: {},
    "accumulated": lambda rank: {"settings": Settings(accumulate_steps=3)},
    "unfrozen": lambda rank: {"callbacks": [unfreeze], "optimizers": of_all},
    "averaged": lambda rank: {"settings": Settings(ema_decay=0.9)},
    "subset": lambda rank: {"optimizers": lambda model: torch.optim.Adam(model.blocks.parameters(), lr=0.03)},
    "recurrent": reading,
    "conformer": conformer,
    "other start": lambda rank: {"model": make_net(3 + (rank or 0))},
}


def one_process(flavour: str) -> dict[str, Any]:
    return train(None, **FLAVOURS[flavour](None))


def shard(model: nn.Module) -> None:
    from torch.distributed.fsdp import fully_shard  # It takes long to import.

    for block in model.encoder.layers if isinstance(model, ConformerClassifier) else model.blocks:
        fully_shard(block)
    fully_shard(model)


def data_parallel(rank: int, *flavours: str) -> dict[str, Any]:
    def wrap(model: nn.Module) -> nn.Module:
        return Ddp(model, find_unused_parameters=isinstance(model, Reader))

    return {name: train(rank, Runtime(wrap=wrap), **FLAVOURS[name](rank)) for name in flavours}


def sharded(rank: int, *flavours: str) -> dict[str, Any]:
    return {name: train(rank, Runtime(shard=shard), **FLAVOURS[name](rank)) for name in flavours}
