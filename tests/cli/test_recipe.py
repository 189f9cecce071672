"""The schedule of the demo, and how it is scaled."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from growkit.cli.recipe import Recipe, Sizes, Stage


def test_scaled_in_proportion() -> None:
    recipe = Recipe().scaled(300)
    assert [stage.step for stage in recipe.stages] == [30, 60, 100]
    assert (recipe.steps, recipe.last_learning_rate_from) == (300, 225)
    assert Recipe().scaled(600) == Recipe()


@given(st.integers(5, 2000))
def test_every_stage_has_its_own_step_inside_the_run(steps: int) -> None:
    recipe = Recipe().scaled(steps)
    points = [0, *(stage.step for stage in recipe.stages), steps]
    assert all(early < late for early, late in pairwise(points))


def test_least_steps() -> None:
    assert Recipe().least_steps == 5
    assert [stage.step for stage in Recipe().scaled(5).stages] == [1, 2, 3]


def test_final_size() -> None:
    """4 * 2 * 2, 2 * 4 * 2, 2 * 2, 2 * 4 * 2 as in the stages; the rest stays."""
    scratch = Recipe().from_scratch()
    grown = Sizes(model_dim=16, ffn_dim=16, num_heads=4, conv_channels=16, num_layers=2)
    assert scratch == replace(Recipe(), sizes=grown, stages=())


def test_ungrown_differs_in_its_stages_only() -> None:
    assert Recipe().ungrown() == replace(Recipe(), stages=())


def test_a_stage_is_in_width_or_in_depth() -> None:
    wide, deep = Stage(1, "a", {"model_dim": 2.0}), Stage(2, "b", num_layers=3)
    assert (wide.kind, wide.deepen) == ("width", {})
    assert (deep.kind, deep.deepen) == ("depth", {"layers": 3})


def test_built_as_the_sizes_say() -> None:
    encoder = Sizes(model_dim=6, num_layers=3, ffn_dim=5).build().encoder
    assert encoder.input_projection.weight.shape == (6, 12)
    assert encoder.num_layers == 3
    assert encoder.layers[0].feed_forward1.linear1.weight.shape == (5, 6)
