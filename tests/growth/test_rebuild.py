"""Growth by a factory, of models that keep references of their own."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam
from torch.optim.swa_utils import AveragedModel

from growkit import Insert, Plan, discover, grow, make_plan, verify
from growkit.errors import DepthError, GrowkitError, PlanError, VerificationError
from growkit.growth.sizes import Sizes
from growkit.testing import assert_function_preserved, randomise
from tests.growth.keeping import WIDEN, Keeps, build, keeps
from tests.growth.nets import Residual, conformer, picture, plain, rows, train, utterances


def _state(optimizer: torch.optim.Optimizer) -> Any:
    state = optimizer.state_dict()
    return plain(sorted(state["state"].items())), plain(state["param_groups"])


def test_a_growth_in_place_is_refused_and_names_the_factory() -> None:
    model = keeps()
    optimizer = SGD(model.parameters())
    before = picture(model, [optimizer])
    with pytest.raises(VerificationError, match="pass factory=, a function of the new sizes"):
        grow(model, widen=WIDEN, example_inputs=rows(), optimizers=optimizer)
    assert picture(model, [optimizer]) == before


class Reads(nn.Module):
    """Reads its weight where nobody sees it, in a way that fits every size."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(3, 4, dtype=torch.float64), nn.Linear(4, 2, dtype=torch.float64)
        weight = self.up.weight.detach()
        self.penalty = lambda: weight.square().sum()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.down(torch.tanh(self.up(x))), self.penalty()


@pytest.mark.parametrize("rollback", [True, False])
def test_old_tensors_that_are_still_read_are_found_though_nothing_deviates(rollback: bool) -> None:
    model = Reads()
    with pytest.raises(GrowkitError, match="the model still reads the old up.weight"):
        grow(model, widen={"up.weight[0]": 6}, example_inputs=rows(), rollback=rollback)


def test_a_rebuilt_model_computes_the_same_and_the_old_one_stays() -> None:
    model = keeps()
    before = picture(model)
    report = grow(model, widen=WIDEN, example_inputs=rows(), factory=build)
    assert picture(model) == before
    assert report.model is not model
    assert report.verification.max_rel <= 1e-12
    assert_function_preserved(model, report.model, rows())
    assert report.model.up.weight.shape == (7, 8)
    assert report.table["up.weight[0]"][0].size == 7
    with torch.no_grad():
        report.model.up.weight.zero_()
    assert not verify(model, report.model, rows()).passed


def test_pending_gradients_grow_along() -> None:
    model = keeps()
    model(rows()).square().sum().backward()
    report = grow(model, widen={"first.weight[0]": 8}, method="copy", example_inputs=rows(), factory=build)
    grown = report.model
    pending = {name: p.grad.clone() for name, p in grown.named_parameters()}
    grown.zero_grad()
    grown(rows()).square().sum().backward()
    for name, parameter in grown.named_parameters():
        torch.testing.assert_close(pending[name], parameter.grad)


def test_dtype_is_that_of_the_old_model() -> None:
    model = keeps().bfloat16()
    new = grow(model, widen=WIDEN, example_inputs=rows().bfloat16(), factory=build_lazily).model
    assert {t.dtype for t in new.state_dict().values()} == {torch.bfloat16}


def build_lazily(sizes: Sizes) -> nn.Module:
    """In another dtype; not in the way of what `Module.to` does."""
    return Keeps(hidden=sizes["up.weight[0]"], width=sizes["first.weight[0]"])


def test_a_plan_is_replayed_by_a_factory() -> None:
    model = keeps()
    plan = make_plan(discover(model, rows()), WIDEN)
    first = grow(model, plan, example_inputs=rows(), factory=build).model
    second = grow(model, Plan.from_json(plan.to_json()), factory=build).model
    assert plain(dict(first.state_dict())) == plain(dict(second.state_dict()))


# ---------------------------------------------------------------------------------------------------- depth


def build_residual(sizes: Sizes) -> nn.Module:
    return Residual(sizes["first.weight[0]"], sizes["blocks.*.up.weight[0]"], sizes["blocks"]).double()


@pytest.mark.parametrize("at", [[0], [1], [2], [0, 1, 1]])
def test_depth_grows_by_a_factory(at: list[int]) -> None:
    """As in place, tensor by tensor; and the optimizer trains it the same way."""
    trained = []
    for factory in (None, build_residual):
        model = randomise(Residual(blocks=2).double())
        optimizer = Adam(model.parameters(), lr=0.01)
        train(model, optimizer)
        report = grow(
            model,
            widen={"**.up.weight[0]": 7},
            deepen={"blocks": Insert(at=at)},
            example_inputs=rows(),
            optimizers=optimizer,
            factory=factory,
        )
        assert report.new_parameters
        train(report.model, optimizer)
        trained.append((plain(dict(report.model.state_dict())), _state(optimizer), report.renames))
        trained[-1] += (report.new_parameters, report.unoptimized)
    assert trained[0] == trained[1]


def test_blocks_without_their_norm_are_refused() -> None:
    model = conformer()
    with pytest.raises(DepthError, match="without its final_norm, by a factory"):
        grow(model, deepen={"layers": 2}, example_inputs=utterances(), factory=lambda sizes: conformer(2))


# -------------------------------------------------------------------------------------------------- refusals


def _sharing(model: nn.Module) -> Callable[[Sizes], nn.Module]:
    def factory(sizes: Sizes) -> nn.Module:
        new = build(sizes)
        new.down.bias = model.down.bias
        return new

    return factory


def _extra(sizes: Sizes) -> nn.Module:
    new = build(sizes)
    new.more = nn.Parameter(torch.zeros(2))
    del new.down.bias
    new.down.bias = None
    return new


def _other(sizes: Sizes) -> nn.Module:
    new = build(sizes)
    new.down.__class__ = nn.modules.linear.NonDynamicallyQuantizableLinear
    return new


def _misnamed(sizes: Sizes) -> nn.Module:
    return Keeps(sizes["upp.weight[0]"])


def _raising(sizes: Sizes) -> nn.Module:
    raise RuntimeError("no such size")


CASES: list[tuple[Any, str]] = [
    (lambda model: lambda sizes: Keeps(), r"up.weight is \(5, 4\), should be \(7, 8\); up.bias is \(5,\), should be"),
    (lambda model: lambda sizes: model, "a factory that returns the old model"),
    (lambda model: lambda sizes: sizes, "a factory that returns Sizes"),
    (lambda model: _sharing(model), r"a new module that shares down.bias \(down.bias\)"),
    (lambda model: _extra, "down.bias is missing; more is not in the old model"),
    (lambda model: _other, "module down is a torch.nn.modules.linear.NonDyn.*, was a torch.nn.modules.linear.Linear"),
    (lambda model: _misnamed, "the name 'upp.weight.0.' has no size"),
    (lambda model: _raising, "the factory raises RuntimeError: no such size"),
]


@pytest.mark.parametrize(("case", "text"), CASES, ids=[text[:20] for _, text in CASES])
def test_a_factory_that_gives_something_else_is_refused(case: Any, text: str) -> None:
    model = keeps()
    optimizer = SGD(model.parameters(), momentum=0.9)
    train(model, optimizer)
    before = picture(model, [optimizer])
    with pytest.raises(GrowkitError, match=text):
        grow(model, widen=WIDEN, example_inputs=rows(), factory=case(model), optimizers=optimizer)
    assert picture(model, [optimizer]) == before


def test_a_factory_whose_module_computes_something_else_leaves_everything_as_it_was() -> None:
    model = keeps()
    optimizer, average = Adam(model.parameters()), AveragedModel(model)
    mapping = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    train(model, optimizer)
    before, module = picture(model, [optimizer], [average, mapping]), average.module

    def factory(sizes: Sizes) -> nn.Module:
        new = build(sizes)
        new.factor = 0.5
        return new

    given: dict[str, Any] = {"optimizers": optimizer, "followers": [average, mapping], "factory": factory}
    with pytest.raises(VerificationError, match="relative"):
        grow(model, widen=WIDEN, example_inputs=rows(), rollback=False, **given)
    assert picture(model, [optimizer], [average, mapping]) == before
    assert average.module is module


def test_a_factory_whose_module_reads_the_old_tensors_is_refused() -> None:
    model = keeps()

    class Closes(Keeps):
        def forward(self, x: Tensor) -> Tensor:
            return model(x)

    model.__class__ = Closes
    model.forward = lambda x: Keeps.forward(model, x)

    def factory(sizes: Sizes) -> nn.Module:
        return Closes(hidden=sizes["up.weight[0]"], width=sizes["first.weight[0]"]).double()

    with pytest.raises(VerificationError, match="still reads the old first.weight"):
        grow(model, widen=WIDEN, example_inputs=rows(), factory=factory)


class Tie(nn.Module):
    def __init__(self, hidden: int = 5, tied: bool = True):
        super().__init__()
        self.up, self.down, self.head = nn.Linear(3, hidden), nn.Linear(hidden, 3), nn.Linear(3, hidden)
        if tied:
            self.head.weight = self.up.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.tanh(self.up(x)) + torch.tanh(self.head(x)))


def test_ties_must_be_the_same() -> None:
    model = randomise(Tie().double())
    with pytest.raises(PlanError, match=r"head.weight is not tied to up.weight"):
        grow(
            model,
            widen={"up.weight[0]": 7},
            example_inputs=rows(),
            factory=lambda sizes: Tie(sizes["up.weight[0]"], tied=False).double(),
        )
    report = grow(
        model,
        widen={"up.weight[0]": 7},
        example_inputs=rows(),
        factory=lambda sizes: Tie(sizes["up.weight[0]"]).double(),
    )
    assert report.model.head.weight is report.model.up.weight


class Config:
    def __init__(self, layers: int):
        self.layers = layers


class Counted(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.blocks = nn.ModuleList(Residual(blocks=1).blocks[0] for _ in range(config.layers))
        self.last = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.pad(x, (0, 1))
        for number in range(self.config.layers):
            x = self.blocks[number](x)
        return self.last(x)


def test_a_factory_that_changes_the_old_config_is_told_to_copy_it() -> None:
    model = randomise(Counted(Config(2)).double())

    def changes(sizes: Sizes) -> nn.Module:
        model.config.layers = sizes["config.layers"]
        return Counted(model.config).double()

    def copies(sizes: Sizes) -> nn.Module:
        config = copy.deepcopy(model.config)
        config.layers = sizes["config.layers"]
        return Counted(config).double()

    report = grow(model, deepen={"blocks": 3}, example_inputs=rows(), factory=copies)
    assert (report.model.config.layers, model.config.layers) == (3, 2)
    with pytest.raises(PlanError, match="a factory that changes the model it is to replace: number config.layers"):
        grow(model, deepen={"blocks": 3}, example_inputs=rows(), factory=changes)


def test_the_random_state_is_as_before() -> None:
    model = keeps()
    before = plain(torch.get_rng_state())
    grow(model, widen=WIDEN, example_inputs=rows(), factory=build)
    assert plain(torch.get_rng_state()) == before
