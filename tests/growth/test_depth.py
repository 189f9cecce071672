"""Where blocks go, and which may."""

import copy
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from growkit import Insert, discover, grow, make_plan
from growkit.errors import DepthError, PlanError
from growkit.growth.depth import depth_steps
from growkit.growth.journal import Journal
from growkit.growth.plan import DepthStep, Insertion, NumberStep, Plan
from growkit.growth.replace import insert_blocks
from growkit.growth.sizes import Sizes
from growkit.testing import assert_function_preserved, randomise
from tests.growth.nets import Branch, Residual, conformer, mlp, picture, residual, rows, utterances

SILENT = {"down.weight": 0.0, "down.bias": 0.0}


@pytest.mark.parametrize(
    ("old", "wanted", "positions"),
    [
        (2, 3, [2]),
        (2, 4, [1, 2]),
        (2, 5, [1, 2, 2]),
        (3, 4, [3]),
        (3, 5, [2, 3]),
        (1, 4, [1, 1, 1]),
        (2, Insert(at=[0]), [0]),
        (2, Insert(at=[2, 0, 2]), [0, 2, 2]),
    ],
)
def test_positions(old: int, wanted: int | Insert, positions: list[int]) -> None:
    """New block k of m after the fraction (k + 1) / m of the old ones; each is like the one before it."""
    (step,) = depth_steps(discover(residual(blocks=old), rows()), {"blocks": wanted})
    assert [i.position for i in step.insertions] == positions
    assert [i.source for i in step.insertions] == [max(p - 1, 0) for p in positions]
    assert (step.container, step.old, step.new) == ("blocks", old, old + len(positions))
    assert all(i.silenced == SILENT for i in step.insertions)


def test_the_final_norm_of_a_conformer_block_is_bypassed() -> None:
    (step,) = depth_steps(discover(conformer(), utterances()), {"layers": 2})
    assert step.container == "encoder.layers"
    assert step.insertions[0].bypassed == ("final_norm",)
    writers = ("feed_forward1.linear2", "attention.out", "convolution.pointwise2", "feed_forward2.linear2")
    assert set(step.insertions[0].silenced) == {f"{w}.{kind}" for w in writers for kind in ("weight", "bias")}


def test_blocks_of_a_sequential() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Sequential(Branch(4, 5), Branch(4, 5)), nn.Linear(4, 2)).double()
    steps = depth_steps(discover(model, rows()), {"1": Insert(at=[1])})
    assert steps == (DepthStep("1", 2, 3, (Insertion(1, 0, SILENT, ()),)),)


@pytest.mark.parametrize(
    ("deepen", "texts"),
    [
        ({"layers": 3}, ["container 'layers', which is not known", "'blocks'"]),
        ({"blocks": 2}, ["'blocks': 2 blocks where there are 2", "an int above 2"]),
        ({"blocks": 1}, ["growkit only grows"]),
        ({"blocks": 2.0}, ["2.0 blocks"]),
        ({"blocks": True}, ["True blocks"]),
        ({"blocks": Insert(at=[])}, ["insertion at []"]),
        ({"blocks": Insert(at=[3])}, ["insertion at [3]", "from 0 to 2"]),
        ({"blocks": Insert(at=[-1])}, ["insertion at [-1]"]),
        ({"blocks": Insert(at=[True])}, ["insertion at [True]"]),
    ],
)
def test_what_cannot_be_is_refused(deepen: dict[str, int | Insert], texts: list[str]) -> None:
    with pytest.raises(DepthError) as error:
        depth_steps(discover(residual(), rows()), deepen)
    assert all(text in str(error.value) for text in texts), str(error.value)


def test_a_block_that_is_no_residual_is_refused() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), nn.Linear(4, 2)).double()
    with pytest.raises(DepthError, match=r"block '1\.1', which does not add to its input"):
        depth_steps(discover(model, rows()), {"1": 3})
    with pytest.raises(DepthError):
        depth_steps(discover(mlp(), rows()), {"": 6})


class PostNorm(Branch):
    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x + self.down(torch.tanh(self.up(x))))


def test_a_block_that_ends_in_a_foreign_norm_is_refused() -> None:
    model = Residual()
    model.blocks = nn.ModuleList([PostNorm(4, 5), PostNorm(4, 5)])
    with pytest.raises(DepthError) as error:
        depth_steps(discover(model.double(), rows()), {"blocks": 3})
    assert error.value.given == "block 'blocks.1', which ends in norm"


class Sandwich(Branch):
    """A norm at the end of the branch, as in Gemma 2 and OLMo 2."""

    def __init__(self) -> None:
        super().__init__(4, 5)
        self.post_norm = nn.LayerNorm(4)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.post_norm(self.down(torch.tanh(self.up(self.norm(x)))))


class Leaky(Branch):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 0.1 * torch.tanh(x)


def _with(block: type[nn.Module], *sizes: int) -> Residual:
    model = Residual()
    model.blocks = nn.ModuleList(block(*sizes) for _ in range(2))
    return randomise(model.double())


class Shifted(Branch):
    """A branch that ends in a norm whose gain is 1 + weight, as those of Gemma."""

    def __init__(self, width: int, hidden: int):
        super().__init__(width, hidden)
        self.gain = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        branch = self.down(torch.tanh(self.up(self.norm(x))))
        return x + branch * torch.rsqrt(branch.square().mean(-1, keepdim=True) + 1e-6) * (1.0 + self.gain)


@pytest.mark.parametrize("factory", [False, True])
def test_a_gain_of_one_plus_a_weight_starts_at_minus_one(factory: bool) -> None:
    """In the model, in what follows it, and by a factory."""
    model, x = _with(Shifted, 4, 5), rows()
    follower, weights = copy.deepcopy(model), dict(copy.deepcopy(model).state_dict())
    before = copy.deepcopy(model)

    def build(sizes: Sizes) -> nn.Module:
        made = Residual()
        made.blocks = nn.ModuleList(Shifted(4, 5) for _ in range(sizes["blocks"]))
        return made.double()

    report = grow(
        model,
        deepen={"blocks": 3},
        example_inputs=x,
        followers=[weights] if factory else [follower, weights],
        factory=build if factory else None,
    )
    grown = report.model if factory else model
    assert torch.equal(grown(x), before(x))
    assert [bool((block.gain == -1).all()) for block in grown.blocks] == [False, False, True]
    assert (weights["blocks.2.gain"] == -1).all()
    if not factory:
        assert (follower.blocks[2].gain == -1).all()
    grown(x).square().sum().backward()
    assert grown.blocks[2].gain.grad.any()


def test_a_norm_at_the_end_of_a_branch_is_silenced_itself() -> None:
    model = _with(Sandwich)
    plan = make_plan(discover(model, rows()), deepen={"blocks": 4})
    silent = {"post_norm.weight": 0.0, "post_norm.bias": 0.0}
    assert all(i.silenced == silent for i in plan.depth[0].insertions)
    before = copy.deepcopy(model)
    grow(model, plan)
    assert_function_preserved(before, model, rows())


def test_a_term_that_stays_is_refused_and_named() -> None:
    with pytest.raises(DepthError) as error:
        make_plan(discover(_with(Leaky, 4, 5), rows()), deepen={"blocks": 3})
    assert error.value.given == (
        "block 'blocks.1', which adds to its input what no parameter makes zero: blocks.1 (tanh)"
    )


class Trees(nn.Module):
    """Two lists called blocks, and lists in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.one, self.two = Residual(), Residual()
        self.nest = nn.ModuleList([nn.Sequential(Branch(4, 5), Branch(4, 5))])

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        for stage in self.nest:
            h = stage(h)
        return self.one(x) + self.two(x) + h.sum()


def test_names_that_fit_several_lists_are_refused() -> None:
    table = discover(Trees().double(), rows())
    with pytest.raises(DepthError, match=r"fits 'one\.blocks', 'two\.blocks'"):
        depth_steps(table, {"blocks": 3})
    assert [s.container for s in depth_steps(table, {"one.blocks": 3, "two.blocks": 4})] == ["one.blocks", "two.blocks"]


def test_one_container_twice_or_inside_another_is_refused() -> None:
    table = discover(conformer(), utterances())
    with pytest.raises(DepthError, match="each container once"):
        depth_steps(table, {"layers": 2, "encoder.layers": 3})
    nested = discover(Trees().double(), rows())
    with pytest.raises(DepthError, match="none inside another"):
        depth_steps(nested, {"nest": 2, "nest.0": 3})


class Numbered(Branch):
    """A block that keeps its number."""

    growkit_sizes: ClassVar[dict[str, str]] = {"layer_idx": "index"}

    def __init__(self, number: int):
        super().__init__(4, 5)
        self.layer_idx = number


class Counted(Residual):
    """A stack whose loop goes by an int, and an int that nothing reads."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Numbered(number) for number in range(2))
        self.num_layers = self.spare = 2

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for number in range(self.num_layers):
            x = self.blocks[number](x)
        return self.last(x)


def test_counts_and_numbers_of_blocks_follow_also_from_a_plan_as_text() -> None:
    model = randomise(Counted().double())
    plan = make_plan(discover(model, rows()), deepen={"blocks": Insert(at=[0, 1, 2])})
    assert plan.depth[0].numbers == (NumberStep("num_layers", None, 2, 5),)
    assert plan.depth[0].indices == ("layer_idx",)
    assert plan.warnings == ("spare = 2 does not say how many blocks of 'blocks' run; left alone",)
    before, follower = copy.deepcopy(model), copy.deepcopy(model)
    grow(model, Plan.from_json(plan.to_json()), followers=follower)
    for grown in (model, follower):
        assert (grown.num_layers, grown.spare) == (5, 2)
        assert [block.layer_idx for block in grown.blocks] == [0, 1, 2, 3, 4]
        assert_function_preserved(before, grown, rows())
    before.num_layers = 1
    with pytest.raises(PlanError, match="number num_layers: the plan says 2, the model has 1"):
        grow(before, plan)


def test_counts_and_numbers_are_taken_back() -> None:
    model = randomise(Counted().double())
    before = picture(model)
    journal = Journal()
    insert_blocks(model, depth_steps(discover(model, rows()), {"blocks": 4})[0], journal)
    assert model.num_layers == 4
    journal.undo()
    assert picture(model) == before


class Averaged(Counted):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) / self.num_layers


def test_a_count_that_is_also_a_number_is_refused() -> None:
    with pytest.raises(DepthError) as error:
        make_plan(discover(Averaged().double(), rows()), deepen={"blocks": 3})
    assert error.value.given == "num_layers = 2, as many as there are blocks in 'blocks', and the model reads it"


@pytest.mark.parametrize("at", [1, None, "12"])
def test_positions_are_a_list(at: object) -> None:
    with pytest.raises(DepthError, match="a list of positions"):
        Insert(at=at)  # type: ignore[arg-type]
