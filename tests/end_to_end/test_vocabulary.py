"""Tables that are looked up by number get new entries behind the old ones, if they are named."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

import growkit as gk
from growkit.errors import GrowkitError, SizeError
from growkit.testing import randomise
from tests.discovery.models import reasons

TOKENS = torch.tensor([[1, 2, 3, 10], [4, 5, 0, 7]])


class Language(nn.Module):
    """Tokens and positions looked up, a residual branch, and scores of 11 tokens, tied or not."""

    def __init__(self, tied: bool = False, padding: int | None = None):
        super().__init__()
        self.tokens, self.places = nn.Embedding(11, 6, padding_idx=padding), nn.Embedding(9, 6)
        self.norm, self.up, self.down = nn.LayerNorm(6), nn.Linear(6, 8), nn.Linear(8, 6)
        self.head = nn.Linear(6, 11, bias=not tied)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, x: Tensor) -> Tensor:
        x = self.tokens(x) + self.places(torch.arange(x.shape[1]))
        return self.head(self.norm(x + self.down(torch.tanh(self.up(x)))))


def _trained(**options: Any) -> tuple[Language, torch.optim.Adam]:
    model = randomise(Language(**options).double())
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(model(TOKENS).flatten(0, 1), TOKENS.flatten()).backward()
        optimizer.step()
    optimizer.zero_grad()
    return model, optimizer


@pytest.mark.parametrize("padding", [None, 3, -1])
@pytest.mark.parametrize("tied", [False, True])
def test_old_entries_scores_and_moments_stay(tied: bool, padding: int | None) -> None:
    model, optimizer = _trained(tied=tied, padding=padding)
    before, scores = copy.deepcopy(model), model(TOKENS)
    state = copy.deepcopy(optimizer.state[model.tokens.weight])
    padding_before = model.tokens.padding_idx
    gk.grow(model, widen={"tokens.weight[0]": 14}, optimizers=optimizer, example_inputs=TOKENS)
    assert (model.tokens.num_embeddings, model.tokens.padding_idx) == (14, padding_before)
    assert model.tokens.weight.shape == (14, 6)
    assert torch.equal(model.tokens.weight[:11], before.tokens.weight)
    assert model.tokens.weight[11:].detach().abs().min() > 0
    assert (model.head.weight is model.tokens.weight) is tied
    assert model.head.out_features == (14 if tied else 11)
    torch.testing.assert_close(model(TOKENS)[..., :11], scores, rtol=0, atol=1e-13)
    for slot, old in state.items():
        now = optimizer.state[model.tokens.weight][slot]
        assert torch.equal(now[:11] if now.dim() else now, old)
    model(torch.tensor([[13, 12]])).sum().backward()
    assert model.tokens.weight.grad is not None
    assert model.tokens.weight.grad[11:].abs().sum() > 0


def test_places_get_new_ones_behind() -> None:
    model, _ = _trained()
    scores = model(TOKENS)
    gk.grow(model, widen={"places.num_embeddings": 12}, example_inputs=TOKENS)
    assert torch.equal(model(TOKENS), scores)
    assert model(torch.zeros(1, 12, dtype=torch.long)).shape == (1, 12, 11)


def test_a_glob_leaves_vocabularies_out() -> None:
    model, _ = _trained()
    table = gk.discover(model, TOKENS)
    assert {axis.kind for axis in table["tokens.weight[0]"] + table["places.weight[0]"]} == {"vocabulary"}
    assert {axis.name for axis in table["**.weight[0]"]} == {"up.weight[0]", "down.weight[0]"}
    assert [axis.name for axis in table["**.num_embeddings"]] == ["tokens.weight[0]", "places.weight[0]"]


def test_no_copies_of_entries() -> None:
    model, _ = _trained()
    with pytest.raises(SizeError, match="its units are looked up by their number, and old ones must stay"):
        gk.grow(model, widen={"tokens.weight[0]": 14}, method="copy", example_inputs=TOKENS)


def test_distances_and_fixed_tables_are_locked() -> None:
    class Distances(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Embedding(7, 2)
            self.register_buffer("fixed", torch.randn(11, 4))
            self.first, self.last = nn.Linear(4, 2), nn.Linear(2, 3)

        def forward(self, x: Tensor) -> Tensor:
            places = torch.arange(x.shape[1])
            near = self.bias(places - places[:, None] + 3).sum(0)
            return self.last(self.first(F.embedding(x, self.fixed)) + near)

    table = gk.discover(Distances(), TOKENS)
    assert reasons(table, "bias.weight[0]") == ["its units are looked up by the distance of two places"]
    assert reasons(table, "fixed[0]") == ["its units are picked by their number"]


def test_entries_behind_which_others_lie_are_locked() -> None:
    class Joined(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.marks, self.last = nn.Embedding(8, 4), nn.Embedding(3, 4), nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(F.embedding(x, torch.cat([self.words.weight, self.marks.weight])))

    model = Joined().double()
    table = gk.discover(model, TOKENS)
    assert "other axes behind it would get other numbers" in reasons(table, "words.weight[0]")[0]
    before = model(TOKENS)
    gk.grow(model, widen={"marks.weight[0]": 5}, example_inputs=TOKENS)
    assert torch.equal(model(TOKENS), before)
    with pytest.raises(GrowkitError, match="other axes behind it"):
        gk.grow(model, widen={"words.weight[0]": 9}, example_inputs=TOKENS)


@pytest.mark.report("R032")
def test_new_entries_cost_what_they_are() -> None:
    """Drawn at the scale of the old ones, entry by entry: no means or covariances of a large table."""

    class Drawn(TorchDispatchMode):
        ops: set[str]
        numbers: int

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = func.overloadpacket.__name__
            self.ops.add(name)
            self.numbers += args[0].numel() if name == "uniform_" else 0
            return func(*args, **(kwargs or {}))

    model, _ = _trained()
    plan = gk.make_plan(gk.discover(model, TOKENS), widen={"tokens.weight[0]": 14})
    seen = Drawn()
    seen.ops, seen.numbers = set(), 0
    with seen:
        gk.grow(model, plan)
    assert seen.numbers == 3 * 6
    assert not seen.ops & {"mm", "bmm", "cov", "linalg_cholesky_ex", "_linalg_svd", "_linalg_eigh"}


def test_entries_picked_by_index_are_looked_up() -> None:
    class Indexed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Parameter(torch.randn(11, 4)), nn.Parameter(torch.randn(9, 4))
            self.near, self.last = nn.Parameter(torch.randn(7, 4)), nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            places = torch.arange(x.shape[1])
            near = self.near[(places - places[:, None] + 3).flatten()].unflatten(0, (len(places), -1)).sum(0)
            return self.last(self.words[x] + self.places[places[None] + 2] + near)

    model = Indexed().double()
    table = gk.discover(model, TOKENS)
    assert [table[f"{name}[0]"][0].kind for name in ("words", "places")] == ["vocabulary", "vocabulary"]
    assert reasons(table, "near[0]") == ["its units are looked up by the distance of two places"]
    before = model(TOKENS)
    gk.grow(model, widen={"words[0]": 12, "places[0]": 15}, example_inputs=TOKENS)
    assert torch.equal(model(TOKENS), before)
