"""Faults that users of other tools reported of grown models: each the smallest case, and what growkit does."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Adam

from growkit import Insert, discover, grow, verify
from growkit.errors import AxisLockedError, DepthError, NameLookupError
from growkit.testing import assert_function_preserved, randomise
from growkit.testing.zoo import ZOO
from tests.growth.nets import conformer, plain, residual, rows, train, utterances


class GroupedQueries(nn.Module):
    """Four heads of queries over one of keys and values, which is repeated: `'batch time 6' -> 'batch time 6'`."""

    def __init__(self) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = 4, 1, 3
        self.query, self.out = nn.Linear(6, 12), nn.Linear(12, 6)
        self.key, self.value = nn.Linear(6, 3), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        batch, time, _ = x.shape
        query = self.query(x).view(batch, time, self.heads, self.head_dim).transpose(1, 2)
        key, value = (layer(x).view(batch, time, 1, self.head_dim).transpose(1, 2) for layer in (self.key, self.value))
        key, value = (part.repeat_interleave(self.heads // self.kv_heads, 1) for part in (key, value))
        mixed = (query @ key.transpose(-1, -2)).softmax(-1) @ value
        return self.out(mixed.transpose(1, 2).reshape(batch, time, self.heads * self.head_dim))


@pytest.mark.report("R021")
def test_query_heads_of_one_repeated_key_head_grow() -> None:
    x = torch.randn(2, 5, 6, dtype=torch.float64)
    model = randomise(GroupedQueries().double())
    before = copy.deepcopy(model)
    grow(model, widen={"query.weight[0].0": 8}, example_inputs=x)
    assert_function_preserved(before, model, x)
    assert (model.heads, model.kv_heads, model.query.weight.shape, model.key.weight.shape) == (8, 1, (24, 6), (3, 6))


@pytest.mark.report("R025")
def test_new_blocks_train_beside_frozen_old_ones() -> None:
    """Same logits at first, two blocks more, and only they move."""
    model, ids = ZOO["decoder"].make()
    before = copy.deepcopy(model)
    report = grow(model, deepen={"blocks": 4}, example_inputs=ids)
    assert_function_preserved(before, model, ids)
    assert len(model.blocks) == 4
    assert len(report.new_parameters) == 2 * len(list(before.blocks[0].parameters()))
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in report.new_parameters)
    old = {name: plain(p) for name, p in model.named_parameters() if not p.requires_grad}
    optimizer = Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
    for _ in range(2):
        model(ids).square().mean().backward()
        optimizer.step()
    parameters = dict(model.named_parameters())
    assert all(parameters[name].grad is None and plain(parameters[name]) == value for name, value in old.items())
    assert all(parameters[name].grad.any() for name in report.new_parameters if "norm" not in name)
    with pytest.raises(AssertionError):
        assert_function_preserved(before, model, ids)


@pytest.mark.report("R026")
def test_repeated_blocks_change_the_function_and_growkit_s_do_not() -> None:
    model = residual(blocks=4)
    repeated = copy.deepcopy(model)
    repeated.blocks = nn.ModuleList(repeated.blocks[i] for i in (0, 1, 1, 2, 2, 3))
    result = verify(model, repeated, rows())
    assert not result.passed
    assert result.max_rel > 1e-2
    before = copy.deepcopy(model)
    report = grow(model, deepen={"blocks": Insert(at=[2, 3])}, example_inputs=rows())
    assert len(model.blocks) == 6
    assert_function_preserved(before, model, rows())
    assert "identity at 2 (like block 1), 3 (like block 2)" in str(report)


@pytest.mark.report("R036")
def test_new_blocks_own_their_tensors() -> None:
    model = residual()
    old = len(list(model.parameters()))
    grow(model, deepen={"blocks": Insert(at=[2, 2, 2])}, example_inputs=rows())
    assert len({p.data_ptr() for p in model.parameters()}) == old + 3 * len(list(model.blocks[0].parameters()))


@pytest.mark.report("R036")
def test_one_block_at_several_places_is_not_deepened() -> None:
    model = residual(blocks=1)
    model.blocks = nn.ModuleList([model.blocks[0]] * 3)
    with pytest.raises(DepthError):
        grow(model, deepen={"blocks": 4}, example_inputs=rows())
    before = copy.deepcopy(model)
    grow(model, widen={"blocks.0.up.weight[0]": 8}, example_inputs=rows())
    assert len({id(block) for block in model.blocks}) == 1
    assert_function_preserved(before, model, rows())


@pytest.mark.report("R038")
@pytest.mark.parametrize("name", ["kernel_size", "encoder.layers.0.convolution.depthwise.weight[2]"])
def test_the_size_of_a_kernel_is_no_width(name: str) -> None:
    model = conformer()
    with pytest.raises((NameLookupError, AxisLockedError)) as error:
        grow(model, widen={name: 5}, example_inputs=utterances())
    assert name in error.value.given


@pytest.mark.report("R100")
def test_what_is_frozen_stays_frozen() -> None:
    model = residual()
    frozen = {"first.weight", "blocks.0.up.weight", "blocks.1.down.bias"}
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in frozen)
    optimizer = Adam([p for p in model.parameters() if p.requires_grad])
    train(model, optimizer)
    report = grow(
        model,
        widen={"first.weight[0]": 8, "blocks.0.up.weight[0]": 7},
        deepen={"blocks": Insert(at=[0, 2])},
        optimizers=optimizer,
        example_inputs=rows(),
    )
    now = {name for name, p in model.named_parameters() if not p.requires_grad}
    copies = {"blocks.0.up.weight", "blocks.3.down.bias"}
    assert now == {report.renames.get(name, name) for name in frozen} | copies
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert {name for name, p in model.named_parameters() if id(p) not in held} == now
    assert not report.unoptimized


@pytest.mark.report("R096")
def test_a_layer_with_a_forward_of_its_own_grows_where_it_stands() -> None:
    model = residual()
    up = model.blocks[0].up
    original = up.forward
    up.forward = lambda x: original(x) + 0
    before = model(rows()).detach()
    grow(model, widen={"blocks.0.up.weight[0]": 7}, example_inputs=rows())
    assert up.weight.shape == (7, 4)
    torch.testing.assert_close(model(rows()), before, rtol=1e-12, atol=1e-12)
    assert discover(model, rows()).by_name["blocks.0.up.weight[0]"].size == 7
