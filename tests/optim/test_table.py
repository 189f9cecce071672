"""Which optimizers have a spec, and which subclasses are trusted with it."""

import pytest
import torch

from growkit.errors import OptimizerError
from growkit.nn.contents import qualified_name
from growkit.optim import table
from growkit.optim.adam import ADAM, ADAMW
from growkit.optim.rules import OptimizerSpec, Scalar
from growkit.optim.sgd import SGD
from growkit.optim.table import find_spec, register, registered

SPEC = OptimizerSpec({"step": Scalar()}, lambda group: False, 0)


@pytest.fixture(autouse=True)
def _restored_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_TABLE", dict(table._TABLE))


class Renamed(torch.optim.Adam):
    pass


class OwnStep(torch.optim.Adam):
    def step(self, closure=None):
        return super().step(closure)


class Plain(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {})

    def step(self, closure=None):
        return None


def test_built_in_specs() -> None:
    assert find_spec(torch.optim.SGD) is SGD
    assert find_spec(torch.optim.Adam) is ADAM
    assert find_spec(torch.optim.AdamW) is ADAMW
    assert find_spec(torch.optim.RMSprop) is None
    assert registered() == ("torch.optim.sgd.SGD", "torch.optim.adam.Adam", "torch.optim.adamw.AdamW")


def test_a_subclass_with_the_same_step_has_the_spec_before_and_after_it_is_built() -> None:
    assert find_spec(Renamed) is ADAM
    Renamed([torch.nn.Parameter(torch.ones(1))])  # torch wraps `step` on the class now
    assert find_spec(Renamed) is ADAM


def test_a_subclass_with_its_own_step_is_not_trusted_until_registered() -> None:
    OwnStep([torch.nn.Parameter(torch.ones(1))])
    assert find_spec(OwnStep) is None
    register(OwnStep, SPEC)
    assert find_spec(OwnStep) is SPEC


def test_registered_by_qualified_name() -> None:
    register(qualified_name(Plain), SPEC)
    assert find_spec(Plain) is SPEC
    assert qualified_name(Plain) in registered()


@pytest.mark.parametrize("again", [torch.optim.Adam, "torch.optim.adam.Adam"])
def test_duplicates_are_refused(again: type | str) -> None:
    with pytest.raises(OptimizerError) as caught:
        register(again, SPEC)
    assert caught.value.given == "a second spec for torch.optim.adam.Adam"
    assert "torch.optim.sgd.SGD" in caught.value.allowed
    assert find_spec(torch.optim.Adam) is ADAM
