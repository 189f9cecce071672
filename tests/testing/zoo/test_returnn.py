"""RETURNN's Conformer, which grows by a factory only."""

import pytest

from growkit import discover, grow
from growkit.errors import VerificationError
from growkit.testing import assert_function_preserved
from growkit.testing.zoo import FOREIGN
from tests.growth.nets import picture

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # RETURNN uses what Python and numpy gave up

NAME = "RETURNN Conformer"


@pytest.mark.parametrize("equal_sizes", [False, True])
@pytest.mark.parametrize(
    "widen",
    [
        {"**.linear_ff.weight[1]": 31},
        {"**.pos_bias_u[0]": 7},
        {"**.conv_layers.*.filter[0]": 2.0},
        {"**.input_projection.weight[1]": 2.0, "**.positionwise_conv1.weight[1].0": 2.0, "**.pos_emb[1]": 2.0},
        {"**.pos_bias_u[1]": 2.0, "**.self_att.proj.weight[0].1": 2.0},
    ],
)
def test_it_grows_by_its_factory(widen: dict[str, int | float], equal_sizes: bool) -> None:
    entry = FOREIGN[NAME]
    model, inputs = entry.make(equal_sizes)
    before = picture(model)
    report = grow(model, widen=widen, example_inputs=inputs, factory=entry.factory)
    assert picture(model) == before
    assert report.verification.training == "kept"
    assert_function_preserved(model, report.model, inputs)
    assert discover(report.model, inputs).unreached == discover(model, inputs).unreached


def test_it_cannot_grow_in_place() -> None:
    model, inputs = FOREIGN[NAME].make()
    before = picture(model)
    with pytest.raises(VerificationError, match="still reads the old .*linear_ff.weight.*\n.*\n.*pass factory="):
        grow(model, widen={"**.linear_ff.weight[1]": 31}, example_inputs=inputs)
    assert picture(model) == before
