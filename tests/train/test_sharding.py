"""Sharding, and back, with one rank; with two: tests/end_to_end/test_ranks.py."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from growkit.errors import EngineError
from growkit.train import Runtime
from growkit.train.sharding import Sharding


@pytest.fixture(autouse=True)
def one_rank(tmp_path: Path) -> Iterator[None]:
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.norm = nn.BatchNorm1d(4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embedding.weight
        self.norm.bias.requires_grad_(False)
        self.norm.eval()

    def forward(self, tokens):
        return self.head(self.norm(self.embedding(tokens)))


def trained() -> tuple[Tied, torch.optim.Adam]:
    net = Tied()
    optimizer = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=0.1)
    net(torch.arange(5)).square().mean().backward()
    optimizer.step()
    return net, optimizer


def test_there_and_back_keeps_values_ties_flags_and_optimizer_state() -> None:
    net, optimizer = trained()
    gradients = [p.grad.clone() for p in net.parameters() if p.grad is not None]
    values = {name: value.clone() for name, value in net.state_dict().items()}
    slots = [
        {key: value.clone() for key, value in optimizer.state[p].items()} for p in optimizer.param_groups[0]["params"]
    ]
    sharding = Sharding(fully_shard)
    sharding.shard(net, [optimizer])
    assert all(isinstance(parameter, DTensor) for parameter in net.parameters())
    assert all(isinstance(optimizer.state[p]["exp_avg"], DTensor) for p in optimizer.param_groups[0]["params"])
    assert {id(p) for p in optimizer.param_groups[0]["params"]} <= {id(p) for p in net.parameters()}

    plain = sharding.gather(net, [optimizer])
    assert type(plain) is Tied
    assert not any(isinstance(parameter, DTensor) for parameter in plain.parameters())
    assert plain.state_dict().keys() == values.keys()
    assert all(torch.equal(value, values[name]) for name, value in plain.state_dict().items())
    assert plain.head.weight is plain.embedding.weight
    assert not plain.norm.bias.requires_grad
    assert (plain.training, plain.norm.training) == (True, False)
    kept = [p.grad for p in plain.parameters() if p.grad is not None]
    assert all(torch.equal(one, other) for one, other in zip(kept, gradients, strict=True))
    held = optimizer.param_groups[0]["params"]
    assert [id(p) for p in held] == [id(p) for p in plain.parameters() if p.requires_grad]
    for parameter, before in zip(held, slots, strict=True):
        assert all(torch.equal(optimizer.state[parameter][key], value) for key, value in before.items())


def test_a_function_that_shards_nothing_is_refused() -> None:
    net, optimizer = trained()
    with pytest.raises(EngineError, match="left no sharded parameters"):
        Sharding(lambda model: model).shard(net, [optimizer])


@pytest.mark.parametrize("beside", [{"wrap": lambda model: model}, {"followers": [nn.Linear(1, 1)]}])
def test_a_wrapper_or_followers_of_a_sharded_model_are_refused(beside: dict[str, Any]) -> None:
    with pytest.raises(EngineError, match="shard beside wrap, unwrap or followers"):
        Runtime(shard=fully_shard, **beside)


def test_a_sharded_model_that_was_changed_in_place_is_refused() -> None:
    net, optimizer = trained()
    sharding = Sharding(fully_shard)
    sharding.shard(net, [optimizer])
    net.added = nn.Linear(1, 1)
    with pytest.raises(EngineError, match="changed in place: added.bias, added.weight"):
        sharding.gather(net, [optimizer])
