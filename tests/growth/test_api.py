"""`grow`: refusals and failures that leave everything as it was."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import Adagrad, Adam
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.optim.swa_utils import AveragedModel

from growkit import Insert, Plan, discover, grow, make_plan
from growkit.errors import (
    AxisLockedError,
    DepthError,
    GrowkitError,
    GrowthInterrupted,
    InputsError,
    NameLookupError,
    OptimizerError,
    PlanError,
    SizeError,
    VerificationError,
)
from growkit.growth import api, followers, replace, slots, transaction
from growkit.testing import assert_function_preserved
from tests.growth.nets import Residual, mlp, picture, residual, rows, train

WIDEN: dict[str, int | float] = {"first.weight[0]": 8, "blocks.0.up.weight[0]": 7}
DEEPEN: dict[str, int | Insert] = {"blocks": Insert(at=[0, 2])}


class Run:
    """A model in training, and all that hangs on it."""

    def __init__(self) -> None:
        self.model = residual()
        decayed = [p for p in self.model.parameters() if p.dim() > 1]
        others = [("bias", p) for p in self.model.parameters() if p.dim() == 1]
        self.optimizer = Adam(
            [{"params": decayed, "weight_decay": 0.1}, {"params": [p for _, p in others]}], amsgrad=True
        )
        self.scheduler = CosineAnnealingLR(self.optimizer, 10)
        self.average = AveragedModel(self.model)
        self.mapping = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        train(self.model, self.optimizer)
        self.scheduler.step()
        self.model.blocks[0].eval()

    def picture(self) -> Any:
        return picture(self.model, [self.optimizer], [self.average, self.mapping], [self.scheduler])

    def grow(self, plan: Plan | None = None, **given: Any) -> Any:
        given = {
            "optimizers": self.optimizer,
            "followers": [self.average, self.mapping],
            "example_inputs": rows(),
        } | given
        return grow(self.model, plan, **given)

    def plan(self) -> Plan:
        return make_plan(discover(self.model, rows()), WIDEN, DEEPEN)


def test_a_growth_in_training() -> None:
    run = Run()
    before = copy.deepcopy(run.model)
    report = run.grow(widen=WIDEN, deepen=DEEPEN)
    assert_function_preserved(before, run.model, rows())
    assert report.model is run.model
    assert report.verification.max_rel <= 1e-12
    train(run.model, run.optimizer)
    run.average.update_parameters(run.model)


@pytest.mark.parametrize(
    ("kind", "request_", "text"),
    [
        (SizeError, {"widen": {"first.weight[0]": 2}}, "would shrink"),
        (SizeError, {"widen": {"first.weight[0]": 6}, "method": "copy"}, "8, 12, 16"),
        (SizeError, {"widen": {"first.weight[0]": 1.3}}, "gives 5.2"),
        (AxisLockedError, {"widen": {"first.weight[1]": 6}}, "is an input of the model"),
        (NameLookupError, {"widen": {"frist.weight[0]": 8}}, "did you mean 'first.weight[0]'"),
        (NameLookupError, {"widen": {"up.weight[0]": 8}}, "fits 2 axes"),
        (NameLookupError, {"widen": WIDEN, "method": "net3net"}, "method 'net3net'"),
        (DepthError, {"deepen": {"blocks": 1}}, "only grows"),
        (PlanError, {}, "asks for nothing"),
        (InputsError, {"widen": WIDEN, "example_inputs": None}, "no plan and no example inputs"),
        (InputsError, {"widen": WIDEN, "example_inputs": torch.ones(2, 5, dtype=torch.float64)}, "raises RuntimeError"),
        (InputsError, {"widen": WIDEN, "example_inputs": 3}, "example inputs of type int"),
        (OptimizerError, {"widen": WIDEN, "optimizers": Adam(nn.Linear(2, 2).parameters())}, "none of the model's"),
        (OptimizerError, {"widen": WIDEN, "optimizers": Adagrad(nn.Linear(2, 2).parameters())}, "has no rules"),
        (OptimizerError, {"widen": WIDEN, "new_state": "random"}, "new_state='random'"),
        (PlanError, {"widen": WIDEN, "followers": nn.Linear(2, 2)}, "as follower"),
    ],
)
def test_a_refusal_changes_nothing(kind: type[GrowkitError], request_: dict[str, Any], text: str) -> None:
    run = Run()
    before = run.picture()
    with pytest.raises(kind) as error:
        run.grow(**request_)
    assert text in str(error.value)
    assert run.picture() == before


def test_a_plan_for_another_model_changes_nothing() -> None:
    run = Run()
    other = residual(hidden=6)
    plan = make_plan(discover(other, rows()), {"first.weight[0]": 8})
    before = run.picture()
    with pytest.raises(PlanError, match="a plan for another model"):
        run.grow(plan)
    with pytest.raises(PlanError, match="a plan, and widen, deepen, method, multiple_of, seed or leave beside it"):
        run.grow(run.plan(), widen=WIDEN)
    assert run.picture() == before


def test_inputs_are_run_before_anything_is_written() -> None:
    run = Run()
    plan, before = run.plan(), run.picture()
    with pytest.raises(InputsError):
        run.grow(plan, example_inputs=torch.ones(2, 5, dtype=torch.float64), rollback=False)
    assert run.picture() == before


class Planted(Exception):
    """A failure that a test planted."""


def _fails(*args: Any, **kwargs: Any) -> Any:
    raise Planted


def _after(count: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which fails at call number `count`."""
    calls = iter(range(count))

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs) if next(calls, None) is not None else _fails()

    return wrapped


STAGES: list[tuple[Any, str, int]] = [
    (transaction, "grow_follower", 0),
    (transaction, "grow_follower", 1),
    (followers, "insert_blocks", 0),
    (transaction, "move_state", 0),
    (transaction, "move_state", 5),
    (transaction, "replace_numbers", 0),
    (transaction, "insert_blocks", 0),
    (replace, "identity_block", 3),
    (transaction, "adopt", 0),
    (transaction, "rename", 0),
    (slots, "remap_state", 3),
    (api, "compare", 0),
    (api, "discover", 0),
    (api, "check_retrace", 0),
    (api, "_size", 1),
]


@pytest.mark.parametrize(("module", "name", "count"), STAGES, ids=[f"{name}-{count}" for _, name, count in STAGES])
def test_a_failure_at_any_stage_is_taken_back(
    module: Any, name: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run()
    plan, before = run.plan(), run.picture()
    with monkeypatch.context() as patch:
        patch.setattr(module, name, _after(count, getattr(module, name)))
        with pytest.raises(Planted):
            run.grow(plan)
    assert run.picture() == before
    run.grow(plan)
    assert len(run.model.blocks) == 4


def test_an_interrupt_is_taken_back_too(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run()
    plan, before = run.plan(), run.picture()

    def interrupt(*args: Any, **kwargs: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "compare", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run.grow(plan)
    assert run.picture() == before


class Biased(Residual):
    """Adds a number that depends on how many blocks it has."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = super().forward(x)
        return result + 0.1 * len(self.blocks) if len(self.blocks) > 2 else result


def test_a_deviation_is_taken_back_and_said_where_it_begins() -> None:
    model = Biased().double()
    optimizer = Adam(model.parameters())
    train(model, optimizer)
    before = picture(model, [optimizer])
    with pytest.raises(VerificationError) as error:
        grow(model, deepen={"blocks": Insert(at=[0])}, optimizers=optimizer, example_inputs=rows())
    assert "NOT kept" in error.value.given
    assert "first at (the whole model)" in error.value.given
    assert picture(model, [optimizer]) == before


def test_the_place_of_a_deviation_is_right_where_blocks_moved() -> None:
    """Old block 1 becomes block 2 and is compared with itself; its own fault is found there."""

    class Faulty(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + (0.5 if len(model.blocks) > 2 else 0.0)

    model = residual()
    faulty = Faulty(5, 4).double()
    faulty.load_state_dict(model.blocks[1].down.state_dict())
    model.blocks[1].down = faulty
    with pytest.raises(VerificationError, match=r"first at blocks\.1\.down"):
        grow(model, deepen={"blocks": Insert(at=[1])}, example_inputs=rows())


def test_without_rollback_a_late_failure_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run()
    plan = run.plan()
    monkeypatch.setattr(transaction, "adopt", _fails)
    with pytest.raises(GrowthInterrupted) as error:
        run.grow(plan, rollback=False)
    assert isinstance(error.value.__cause__, Planted)
    assert "half grown" in error.value.allowed


def test_without_rollback_an_early_failure_is_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run()
    plan, before = run.plan(), run.picture()
    monkeypatch.setattr(transaction, "grow_follower", _fails)
    with pytest.raises(Planted):
        run.grow(plan, rollback=False)
    assert run.picture() == before


def test_both_ways_give_the_same() -> None:
    one, other = Run(), Run()
    plan = one.plan()
    one.grow(plan)
    other.grow(plan, rollback=False)
    for a, b in zip(one.picture()[2:], other.picture()[2:], strict=True):
        assert a == b
    for (name, _, value), (other_name, _, other_value) in zip(one.picture()[1], other.picture()[1], strict=True):
        assert (name, value) == (other_name, other_value)


def test_pending_gradients_grow_along() -> None:
    """They are what backward gives on the grown model; of a parameter that does not grow, the same object."""
    model = residual()
    model(rows()).square().sum().backward()
    gradient = model.last.bias.grad
    grow(model, widen=WIDEN, example_inputs=rows(), method="copy")
    assert model.last.bias.grad is gradient
    mapped = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    model(rows()).square().sum().backward()
    for name, p in model.named_parameters():
        torch.testing.assert_close(mapped[name], p.grad, rtol=1e-12, atol=1e-12)


def test_compiled_models_are_unwrapped() -> None:
    model = mlp()
    compiled = torch.compile(model, backend="eager")
    report = grow(compiled, widen={"0.weight[0]": 8}, example_inputs=rows())
    assert report.model is model
    assert compiled._orig_mod is model
    assert model[0].out_features == 8


def test_another_entry_than_forward_and_declared_layouts() -> None:
    model = residual()
    layouts = {"blocks.1.up.weight": "hidden:produces stream:consumes"}
    report = grow(
        model,
        widen={"hidden": 7},
        deepen={"blocks": Insert(at=[0])},
        example_inputs={"rows": rows()},
        layouts=layouts,
        call=lambda m, inputs: m(inputs["rows"]),
    )
    assert report.renames["blocks.1.up.weight"] == "blocks.2.up.weight"
    assert model.blocks[2].up.out_features == 7


def test_growth_after_growth() -> None:
    model = residual()
    first = copy.deepcopy(model)
    optimizer = Adam(model.parameters())
    for number in range(4):
        widen = {"blocks.0.up.weight[0]": 6 + number} | ({"first.weight[0]": 2.0} if number % 2 else {})
        grow(model, widen=widen, deepen={"blocks": 3 + number}, optimizers=optimizer, example_inputs=rows())
    assert_function_preserved(first, model, rows())
    assert len(model.blocks) == 6
    assert {id(p) for p in optimizer.param_groups[0]["params"]} == {id(p) for p in model.parameters()}
    train(model, optimizer)


def test_outputs_for_each_block_are_to_be_left_out() -> None:
    class Both(Residual):
        def forward(self, x: torch.Tensor) -> Any:
            states = [self.first(x)]
            for block in self.blocks:
                states.append(block(states[-1]))
            return self.last(states[-1]), states

    with pytest.raises(VerificationError, match=r"(?s)5 output tensors after, 4 before.*use_cache=False"):
        grow(Both(), deepen={"blocks": 3}, example_inputs=rows().float())
