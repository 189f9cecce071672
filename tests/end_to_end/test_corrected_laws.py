"""What takes a factor when an axis grows: function, gradients and Adam moments, by autograd on the grown net."""

import copy
from collections.abc import Callable

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.optim import Adam

from growkit import discover, grow, make_plan
from growkit.errors import GrowkitError
from growkit.growth.resolve import resolve
from growkit.growth.verify import verify
from growkit.maps.axis_map import NEW
from growkit.testing import randomise
from tests.end_to_end.corrected import LAYER, RMS, Attention, OneEps, PreNorm, TiedHead, batch, frames, tokens

STREAM, TABLE, HEAD = "enter.weight[0]", "embedding.weight[1]", "dim"


def loss_of(model: nn.Module, inputs: Tensor) -> Tensor:
    result = model(inputs)
    return (result - torch.linspace(-1, 1, result.numel(), dtype=result.dtype).view_as(result)).square().mean()


def far(found: Tensor, expected: Tensor, kept: Tensor, largest: float) -> float:
    """Relative to the tensor, or where its gradients cancel to a thousandth of it, to the largest of the net."""
    scale = max(float(expected[kept].abs().max()), 1e-3 * largest)
    return float((found - expected)[kept].abs().max()) / scale


def deviations(model: nn.Module, inputs: Tensor, axis: str, new: int, method: str) -> tuple[float, set[str], set[str]]:
    """Of the function; the parameters whose gradients are others than the maps say; the slots reported as exact, or
    new, that the grown net would not have accumulated in eight steps."""
    plan = make_plan(discover(model, inputs), {axis: new}, method=method)
    before, grown = copy.deepcopy(model), copy.deepcopy(model)
    grow(grown, plan)
    function = verify(before, grown, inputs).max_rel
    edits = resolve(plan, model).edits
    kept = {name: torch.ones_like(p, dtype=torch.bool) for name, p in grown.named_parameters()}
    for name, edit in edits.items():
        for number, dim in enumerate(edit.dims):
            if dim is not None:
                fresh = [j for j, source in enumerate(dim.source) if source == NEW]
                kept[name].index_fill_(number, torch.tensor(fresh, dtype=torch.long), False)
    twin = {name: torch.zeros_like(p).requires_grad_() for name, p in grown.named_parameters()}
    optimizer, own = Adam(model.parameters(), lr=0.01), Adam(twin.values(), lr=0.01)
    gradients = set()
    for number in range(8):
        grown = copy.deepcopy(model)
        grow(grown, plan)
        optimizer.zero_grad()
        for net in (grown, model):
            loss_of(net, batch(inputs, number)).backward()
        largest = max(float(p.grad.abs().max()) for p in grown.parameters())
        old = {name: p.grad for name, p in model.named_parameters()}
        for name, parameter in grown.named_parameters():
            expected = edits[name].gradient(old[name]) if name in edits else old[name]
            if far(parameter.grad, expected, kept[name], largest) > 1e-10:
                gradients.add(name)
            twin[name].grad = parameter.grad
        own.step()
        optimizer.step()
    report = grow(model, plan, optimizers=optimizer)
    slots = set()
    for name, parameter in model.named_parameters():
        for key, expected in own.state[twin[name]].items():
            if expected.dim():
                largest = max(float(state[key].abs().max()) for state in own.state.values())
                if far(optimizer.state[parameter][key], expected, kept[name], largest) > 1e-10:
                    slots.add(name)
    approximate = {name for name, found in report.slots.items() if any(s.status == "approximate" for s in found)}
    return function, gradients, slots - approximate


def assert_laws(model: nn.Module, inputs: Tensor, axis: str, new: int, method: str) -> None:
    function, gradients, slots = deviations(randomise(model.double()), inputs, axis, new, method)
    assert function <= 1e-12
    assert not gradients
    assert not slots


def law(few: int) -> Callable[[Callable[[st.DataObject], None]], Callable[[], None]]:
    def decorate(body: Callable[[st.DataObject], None]) -> Callable[[], None]:
        return settings(max_examples=few, deadline=None, phases=[Phase.generate])(given(st.data())(body))

    return decorate


@law(10)
def test_streams_through_norms_of_mean_squares(data: st.DataObject) -> None:
    kind, method = data.draw(st.sampled_from(RMS)), data.draw(st.sampled_from(("zero_pad", "isometric", "copy")))
    width, hidden = data.draw(st.sampled_from(((4, 4), (3, 5), (5, 3))))
    new = 2 * width if method == "copy" else data.draw(st.integers(width + 1, 3 * width))
    assert_laws(PreNorm(kind, width, hidden, data.draw(st.booleans())), frames(), STREAM, new, method)


@law(6)
def test_tied_tables(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(("rms", "rms by hand", "rms by hand, shifted", "unit length")))
    method, width = data.draw(st.sampled_from(("zero_pad", "isometric", "copy"))), data.draw(st.sampled_from((3, 4)))
    new = 2 * width if method == "copy" else data.draw(st.integers(width + 1, 3 * width))
    scaled = data.draw(st.booleans())
    assert_laws(TiedHead(kind, width, 5, scaled=scaled), tokens(), TABLE, new, method)


SCORES = ("plain", "int", "float", "root", "given", "relative", "fused")


@law(8)
def test_head_dims(data: st.DataObject) -> None:
    method, dim = data.draw(st.sampled_from(("fresh", "isometric", "copy"))), data.draw(st.sampled_from((2, 3)))
    new = 2 * dim if method == "copy" else data.draw(st.integers(dim + 1, 3 * dim))
    kind, groups = data.draw(st.sampled_from(SCORES)), data.draw(st.sampled_from((1, 2)))
    if kind == "relative":
        groups = 2
    assert_laws(Attention(kind, 2, dim, groups), frames(), HEAD, new, method)


@pytest.mark.parametrize("kind", LAYER)
def test_whole_copies_through_layer_norms(kind: str) -> None:
    assert_laws(PreNorm(kind, 3, 4), frames(), STREAM, 6, "copy")
    assert_laws(TiedHead(kind, 3, 4), tokens(), TABLE, 6, "copy")


WRITERS = {"enter.weight", "enter.bias", "down.0.weight", "down.0.bias", "down.1.weight", "down.1.bias"}


def test_means_through_layer_norms_move_readers_and_gains_exactly_and_say_that_writers_do_not() -> None:
    model = randomise(PreNorm("layer", 3, 4).double())
    function, gradients, slots = deviations(model, frames(), STREAM, 8, "mean_pad")
    assert function <= 1e-12
    assert gradients == WRITERS
    assert not slots
    model = randomise(TiedHead("layer", 3, 4).double())
    function, gradients, slots = deviations(model, tokens(), TABLE, 5, "mean_pad")
    assert function <= 1e-12
    assert gradients == {"embedding.weight", "down.weight", "down.bias"}
    assert not slots


@pytest.mark.parametrize(
    ("kind", "method"),
    [("eps in the code", "zero_pad"), ("eps in the code", "isometric"), ("rms", "mean_pad"), ("layer", "zero_pad"),
     ("layer", "isometric")],
)  # fmt: skip
def test_what_no_parameter_can_take_is_refused(kind: str, method: str) -> None:
    table = discover(randomise(PreNorm(kind, 3, 4).double()), frames())
    with pytest.raises(GrowkitError):
        make_plan(table, {STREAM: 5}, method=method)
    make_plan(table, {STREAM: 6}, method="copy")


@pytest.mark.parametrize(("method", "new"), [("zero_pad", 8), ("zero_pad", 7), ("isometric", 9)])
def test_one_eps_and_one_side_of_a_square_weight_take_their_factor_once(method: str, new: int) -> None:
    assert_laws(OneEps(4), frames(), STREAM, new, method)
    plan = make_plan(discover(OneEps(4).double(), frames()), {STREAM: new}, method=method)
    assert [(step.path, step.new) for step in plan.floats] == [("eps", pytest.approx(1e-2 * 4 / new))]
