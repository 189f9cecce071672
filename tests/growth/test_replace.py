"""Writes into modules."""

import copy
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from growkit import Insert, discover, grow, make_plan
from growkit.growth.journal import Journal
from growkit.growth.plan import DepthStep, Insertion, NumberStep
from growkit.growth.replace import (
    identity_block,
    insert_blocks,
    moved,
    moved_layouts,
    renames,
    replace_numbers,
    replace_tensors,
)
from growkit.growth.resolve import resolve
from growkit.testing import assert_function_preserved, randomise
from tests.growth.nets import Branch, Residual, Tied, conformer, picture, residual, rows, utterances

TOKENS = torch.tensor([[1, 2, 6]])


def _replace(model: nn.Module, inputs: object, widen: dict[str, int]) -> list[str]:
    plan = make_plan(discover(model, inputs), widen)
    journal = Journal()
    written = [name for name, _, _ in replace_tensors(model, resolve(plan, model).edits, journal)]
    replace_numbers(model, plan.numbers, journal)
    return written


class Twins(nn.Module):
    """Two layers with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.last = nn.Linear(3, 4), nn.Linear(3, 4), nn.Linear(4, 2)
        self.two.weight = self.one.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.one(x)) + self.two(x))


def test_tied_weights_stay_tied() -> None:
    model = randomise(Twins().double())
    before = model(rows())
    written = _replace(model, rows(), {"one.weight[0]": 7})
    assert written == ["one.weight", "one.bias", "two.bias", "last.weight"]
    assert model.one.weight is model.two.weight
    assert model.one.weight.shape == (7, 3)
    torch.testing.assert_close(model(rows()), before, rtol=1e-12, atol=1e-12)


def test_a_tied_table_stays_tied_when_what_reads_it_grows() -> None:
    model = randomise(Tied().double())
    _replace(model, TOKENS, {"up.weight[0]": 7})
    assert model.head.weight is model.embedding.weight


def test_a_module_at_two_places_is_changed_once() -> None:
    shared = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 4))
    model = randomise(nn.Sequential(nn.Linear(3, 4), shared, nn.Tanh(), shared, nn.Linear(4, 2)).double())
    before = model(rows())
    written = _replace(model, rows(), {"1.0.weight[0]": 8})
    assert written == ["1.0.weight", "1.0.bias", "1.2.weight"]
    assert model[1] is model[3]
    torch.testing.assert_close(model(rows()), before, rtol=1e-12, atol=1e-12)


def test_what_a_parameter_is_besides_its_entries_stays() -> None:
    model = residual()
    up = model.blocks[0].up
    up.weight.requires_grad_(False)
    up.bias.learning_rate_scale = 0.3  # type: ignore[attr-defined]
    model.blocks[0].eval()
    calls: list[str] = []
    up.register_forward_hook(lambda module, args, result: calls.append("hook"))
    modules = dict(model.named_modules())
    _replace(model, rows(), {"blocks.0.up.weight[0]": 8})
    assert not up.weight.requires_grad
    assert up.bias.requires_grad
    assert up.bias.learning_rate_scale == 0.3
    assert type(up.weight) is nn.Parameter
    assert up.weight.is_leaf
    assert not model.blocks[0].training
    assert model.blocks[1].training
    assert dict(model.named_modules()) == modules
    calls.clear()
    model(rows())
    assert calls == ["hook"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dtypes_stay(dtype: torch.dtype) -> None:
    model = residual().to(dtype)
    model.last.double()
    plan = make_plan(discover(residual(), rows()), {"first.weight[0]": 8})
    for _ in replace_tensors(model, resolve(plan, model).edits, Journal()):
        pass
    assert {p.dtype for name, p in model.named_parameters() if name.startswith(("first", "blocks"))} == {dtype}
    assert model.last.weight.dtype == torch.float64


def test_the_memory_format_stays() -> None:
    layers = [nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3)]
    model = nn.Sequential(*layers).to(memory_format=torch.channels_last)
    _replace(model, torch.randn(1, 3, 6, 6), {"0.weight[0]": 6})
    for layer in (model[0], model[2]):
        assert layer.weight.is_contiguous(memory_format=torch.channels_last)
        assert not layer.weight.is_contiguous()


class Scaled(nn.Module):
    """A buffer that is not saved, and what the units are multiplied by."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(3, 4), nn.Linear(4, 2)
        self.register_buffer("scale", torch.tensor([1.0, 2.0, 3.0, 4.0]), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.up(x) * self.scale)


def test_buffers_grow_and_stay_what_they_are() -> None:
    model = Scaled().double()
    before = model(rows())
    _replace(model, rows(), {"up.weight[0]": 6})
    assert isinstance(model.scale, Tensor)
    assert not isinstance(model.scale, nn.Parameter)
    assert model.scale.tolist()[:4] == [1, 2, 3, 4]
    assert model.scale.shape == (6,)
    assert "scale" not in model.state_dict()
    torch.testing.assert_close(model(rows()), before, rtol=1e-12, atol=1e-12)


def test_buffers_are_taken_back() -> None:
    model = conformer()
    before = picture(model)
    resolved = resolve(make_plan(discover(model, utterances()), {"conv_channels": 6}), model)
    journal = Journal()
    written = [name for name, _, _ in replace_tensors(model, resolved.edits, journal)]
    assert {name.rpartition(".")[2] for name in written} >= {"running_mean", "running_var", "weight"}
    assert picture(model) != before
    journal.undo()
    assert picture(model) == before


def test_numbers_in_attributes_and_tuples() -> None:
    model = residual()
    steps = (NumberStep("first.out_features", None, 4, 8), NumberStep("blocks.0.norm.normalized_shape", 0, 4, 8))
    journal = Journal()
    replace_numbers(model, steps, journal)
    assert model.first.out_features == 8
    assert model.blocks[0].norm.normalized_shape == (8,)
    journal.undo()
    assert (model.first.out_features, model.blocks[0].norm.normalized_shape) == (4, (4,))


def _step(*positions: int) -> DepthStep:
    silent = {"down.weight": 0.0, "down.bias": 0.0}
    return DepthStep("blocks", 2, 2 + len(positions), tuple(Insertion(p, max(p - 1, 0), silent, ()) for p in positions))


def test_blocks_go_where_they_are_asked() -> None:
    model = residual()
    first, second = model.blocks
    journal = Journal()
    assert insert_blocks(model, _step(0, 1, 2, 2), journal) == [(0, 1), (2, 1), (4, 3), (5, 3)]
    assert [list(model.blocks).index(block) for block in (first, second)] == [1, 3]
    assert len({id(p) for p in model.parameters()}) == 2 * 2 + 6 * 6
    new = model.blocks[4]
    assert torch.equal(new.up.weight, second.up.weight)
    assert not new.down.weight.any()
    assert not new.down.bias.any()
    journal.undo()
    assert list(model.blocks) == [first, second]


def test_counts_and_numbers_of_blocks_follow() -> None:
    model = residual()
    model.config = SimpleNamespace(depth=2)
    for number, block in enumerate(model.blocks):
        block.number = number
    step = replace(_step(0, 2), numbers=(NumberStep("config.depth", None, 2, 4),), indices=("number",))
    journal = Journal()
    insert_blocks(model, step, journal)
    assert model.config.depth == 4
    assert [block.number for block in model.blocks] == [0, 1, 2, 3]
    journal.undo()
    assert model.config.depth == 2
    assert [block.number for block in model.blocks] == [0, 1]


def test_a_new_block_is_the_identity() -> None:
    block = residual().blocks[0]
    block.up.weight.grad = torch.ones_like(block.up.weight)
    block.up.bias.requires_grad_(False)
    block.eval()
    x = torch.randn(3, 4, dtype=torch.float64)
    new = identity_block(block, {"down.weight": 0.0, "down.bias": 0.0}, ())
    assert torch.equal(new(x), x)
    assert new.up.weight.grad is None
    assert block.up.weight.grad is not None
    assert not new.up.bias.requires_grad
    assert not new.training
    assert block.down.weight.any()


def test_a_conformer_block_is_the_identity_without_its_norm() -> None:
    model = conformer()
    plan = make_plan(discover(model, utterances()), deepen={"layers": 2})
    (insertion,) = plan.depth[0].insertions
    block = identity_block(model.encoder.layers[0], insertion.silenced, insertion.bypassed)
    assert isinstance(block.final_norm, nn.Identity)
    x = torch.randn(2, 5, 4, dtype=torch.float64)
    assert torch.equal(block(x, model.encoder.positions(x), torch.ones(2, 5, dtype=torch.bool)), x)


def test_names_of_what_moves() -> None:
    names = ["first.weight", "blocks.0.up.weight", "blocks.1.up.weight", "blocks.1", "blocks", "blocksize.1"]
    assert renames(names, _step(1, 1)) == {"blocks.1.up.weight": "blocks.3.up.weight", "blocks.1": "blocks.3"}
    assert renames(names, _step(2)) == {}
    assert moved("blocks.1.up", (_step(0), _step(0))) == "blocks.3.up"
    root = DepthStep("", 2, 3, (Insertion(0, 0, {}, ()),))
    assert renames(["0.weight", "1", "head.weight"], root) == {"0.weight": "1.weight", "1": "2"}


def test_blocks_of_a_model_that_is_itself_the_list() -> None:
    model = nn.Sequential(*residual().blocks)
    before = nn.Sequential(*residual().blocks)
    x = torch.randn(3, 4, dtype=torch.float64)
    grow(model, deepen={"": Insert(at=[0, 2])}, example_inputs=x)
    assert len(model) == 4
    assert_function_preserved(before, model, x)


class Recurrent(nn.Module):
    """An LSTM, which lists its weights once more, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.last = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.layer(x)[0])


def test_where_a_module_lists_its_weights_they_are_replaced_too_and_put_back() -> None:
    model = randomise(Recurrent().double())
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    plan, before = make_plan(discover(model, x), {"hidden_size": 6}), model(x)
    old, journal = list(model.layer._flat_weights), Journal()
    for _ in replace_tensors(model, resolve(plan, model).edits, journal):
        pass
    replace_numbers(model, plan.numbers, journal)
    assert all(a is b for a, b in zip(model.layer._flat_weights, model.layer.parameters(), strict=True))
    torch.testing.assert_close(model(x), before, rtol=1e-12, atol=1e-12)
    journal.undo()
    assert all(a is b for a, b in zip(model.layer.parameters(), old, strict=True))
    assert torch.equal(model(x), before)


class Bessel(Branch):
    """A block with an op that discovery does not know, so that its layouts are declared."""

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.special.i0(self.up(self.norm(x))))


def test_a_stack_with_declared_layouts_grows_in_depth_and_then_in_width() -> None:
    model = Residual()
    model.blocks = nn.ModuleList(Bessel(4, 5) for _ in range(2))
    layouts = {}
    for number in range(2):
        layouts[f"blocks.{number}.up.weight"] = f"hidden{number}:produces stream:consumes"
        layouts[f"blocks.{number}.down.weight"] = f"stream:produces hidden{number}:consumes"
    model = randomise(model.double())
    before = copy.deepcopy(model)
    report = grow(model, deepen={"blocks": Insert(at=[0, 1, 1])}, layouts=layouts, example_inputs=rows())
    assert report.layouts is not None
    assert len(report.layouts) == 2 * 5
    assert report.table is not None
    assert report.table.layouts["blocks.0.up.weight"].axes() == ("hidden0_0", "stream")
    widen = {"stream": 8, "hidden0": 7, "hidden0_0": 6, "hidden0_2": 9, "hidden1": 10}
    again = grow(model, widen=widen, layouts=report.layouts, example_inputs=rows())
    assert again.layouts == report.layouts
    assert [block.up.weight.shape for block in model.blocks] == [(6, 8), (7, 8), (9, 8), (5, 8), (10, 8)]
    assert_function_preserved(before, model, rows())


def test_declared_layouts_move_and_new_blocks_have_labels_of_their_own() -> None:
    layouts = {
        "first.weight": "stream:produces input:consumes",
        "blocks.0.up": "hidden:produces stream:consumes",
        "blocks.0.final_norm.weight": "stream:gain",
        "blocks.1.up": "(heads width):produces stream:consumes",
    }
    first = Insertion(0, 0, {}, ("final_norm",), ("hidden",))
    second = Insertion(2, 1, {}, (), ("heads", "width"))
    assert moved_layouts(layouts, (DepthStep("blocks", 2, 4, (first, second)),)) == {
        "first.weight": "stream:produces input:consumes",
        "blocks.0.up": "hidden_0:produces stream:consumes",
        "blocks.1.up": "hidden:produces stream:consumes",
        "blocks.1.final_norm.weight": "stream:gain",
        "blocks.2.up": "(heads width):produces stream:consumes",
        "blocks.3.up": "(heads_3 width_3):produces stream:consumes",
    }
    taken = moved_layouts(
        {"0.up": "a:produces", "1.up": "a_0:produces"}, (DepthStep("", 2, 3, (Insertion(0, 0, {}, (), ("a",)),)),)
    )
    assert taken == {"0.up": "a_0_:produces", "1.up": "a:produces", "2.up": "a_0:produces"}
