"""Arguments of other types than allowed: named, and nothing is changed."""

from typing import Any

import pytest
import torch
from torch import nn

from growkit import grow
from growkit.errors import GrowkitError, PlanError
from tests.growth.nets import picture, residual, rows


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ({"plan": "{}"}, "a plan of type str"),
        ({"widen": ["first.weight[0]"]}, "widen=.* of type list"),
        ({"widen": {0: 2}}, "widen with the name 0 of type int"),
        ({"deepen": "blocks"}, "deepen='blocks' of type str"),
        ({"widen": {"first.weight[0]": 8}, "method": 5}, "method=5 of type int"),
        ({"widen": {"first.weight[0]": 8}, "optimizers": 5}, "an optimizer of type int"),
        (
            {"widen": {"first.weight[0]": 8}, "optimizers": [nn.Parameter(torch.ones(1))]},
            "an optimizer of type Parameter",
        ),
    ],
)
def test_arguments_of_other_types_are_named(arguments: dict[str, Any], given: str) -> None:
    model = residual()
    before = picture(model)
    with pytest.raises(GrowkitError, match=given):
        grow(model, example_inputs=rows(), **arguments)
    assert picture(model) == before


def test_no_model() -> None:
    with pytest.raises(PlanError, match="a model of type Tensor"):
        grow(torch.ones(2), widen={"a": 2})  # type: ignore[arg-type]
