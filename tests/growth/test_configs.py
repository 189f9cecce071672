from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import growkit as gk
from growkit.growth import configs
from growkit.growth.configs import bring_in_line, family_of
from growkit.growth.journal import Journal
from growkit.growth.replace import replace_numbers, replace_tensors
from growkit.growth.resolve import resolve
from tests.growth.configured import (
    Config,
    Net,
    Reader,
    Scaled,
    Strict,
    Tabled,
    Wrapper,
    built,
    entries_of,
    known,
    rebuilt,
    sizes,
)
from tests.growth.nets import rows

STREAM = "first.weight[0]"
HIDDEN = {"blocks.0.up.weight[0]": 10, "blocks.1.up.weight[0]": 10}


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with known():
        yield


def grow(model: Any, widen: dict[str, int], **options: Any) -> tuple[gk.Report, configs.ConfigReport]:
    report = gk.grow(model, widen=widen, example_inputs=rows(), **options)
    (config,) = report.configs
    return report, config


def assert_described(model: Any) -> None:
    torch.testing.assert_close(rebuilt(model)(rows()), model(rows()), rtol=0, atol=1e-12)


@pytest.mark.report("R189")
def test_entries_follow_what_grew() -> None:
    model = built(Net)
    before = model(rows())
    report, config = grow(model, {STREAM: 8, **HIDDEN})
    assert config.describes
    assert config.changes == {"width": (4, 8), "hidden": (5, 10)}
    assert entries_of(model.config) == {"width": 8, "hidden": 10, "layers": 2, "unused": 4, "name": "net"}
    assert "Config of the model describes the grown model: width 4 -> 8, hidden 5 -> 10" in str(report)
    assert not report.warnings
    assert_described(model)
    torch.testing.assert_close(model(rows()), before, rtol=0, atol=1e-12)


def test_an_entry_that_was_left_to_its_default_is_set() -> None:
    model = built(Net, hidden=None)
    _, config = grow(model, {STREAM: 12})
    assert config.changes == {"width": (4, 12), "hidden": (None, 8)}
    assert_described(model)


def test_an_int_that_is_only_kept_follows() -> None:
    model = built(Net)
    grow(model, {STREAM: 8})
    assert model.width == 8


def test_a_list_has_an_entry_for_each_layer() -> None:
    model = built(Net, hidden=[5, 5])
    _, config = grow(model, {"blocks.1.up.weight[0]": 7})
    assert config.changes == {"hidden.1": (5, 7)}
    assert model.config.hidden == [5, 7]
    assert_described(model)


@pytest.mark.report("R192")
def test_one_entry_for_layers_that_differ_cannot_describe_them() -> None:
    model = built(Net)
    entries = entries_of(model.config)
    report, config = grow(model, {"blocks.0.up.weight[0]": 7})
    assert not config.describes
    assert entries_of(model.config) == entries
    assert config.changes == {}
    assert "blocks.0.up.weight would be 5x4, and is 7x4, unlike blocks.1.up.weight" in config.problem
    assert "let all of them grow" in config.problem
    assert report.warnings == (str(config),)
    assert "Config of the model does not describe the grown model and is as it was" in str(report)


def test_a_float_that_the_class_computes_anew_is_named() -> None:
    model = built(Scaled)
    _, config = grow(model, {STREAM: 16})
    assert config.problem == "with width=16, scale would be 0.25, and is 0.5"
    assert [(d.name, d.kept, d.built) for d in config.differences] == [("scale", 0.5, 0.25)]
    assert model.config.width == 4


def test_a_table_that_the_class_computes_anew_is_named() -> None:
    model = built(Tabled)
    gk.grow(model, widen=HIDDEN, example_inputs=rows())
    assert model.config.hidden == 10
    plan = gk.make_plan(gk.discover(model, rows()), {STREAM: 8})
    assert "table" not in plan.layouts
    report = gk.grow(model, plan, example_inputs=rows())
    assert "table would be computed anew, to other values" in report.configs[0].problem


def test_what_computes_something_else_does_not_describe() -> None:
    model = built(Net)
    for block in model.blocks:
        block.norm.register_forward_hook(lambda module, args, result: 2 * result)
    entries = entries_of(model.config)
    _, config = grow(model, HIDDEN)
    assert config.problem.startswith("a Net built from it has the shapes of the grown model, but it computes something")
    assert entries_of(model.config) == entries


def test_a_class_that_refuses_is_quoted() -> None:
    model = built(Strict, unused=3)
    _, config = grow(model, {STREAM: 8})
    assert config.problem == "with width=8, Strict cannot be built: ValueError: a width of 8 will not do"
    assert model.config.width == 4
    _, config = grow(model, {STREAM: 16})
    assert config.changes == {"width": (4, 16)}


def test_a_class_that_needs_more_than_a_config_is_quoted() -> None:
    class More(Net):
        def __init__(self, config: Config, factor: int):
            super().__init__(config)

    model = More(sizes(), 2).double()
    _, config = grow(model, HIDDEN)
    assert "More cannot be built: TypeError" in config.problem


def test_a_model_inside_another_is_found() -> None:
    model = Wrapper(built(Net))
    report = gk.grow(model, widen={"inner.first.weight[0]": 8}, example_inputs=rows())
    (config,) = report.configs
    assert (config.path, config.changes) == ("inner", {"width": (4, 8)})
    assert str(config).startswith("Config of inner describes")
    assert_described(model.inner)
    assert isinstance(model.inner, Net)


def test_copies_of_a_config_follow_and_shared_ones_are_written_once() -> None:
    model = built(Net)
    model.blocks[0].config = model.config
    model.blocks[1].config = copy.copy(model.config)
    type(model.blocks[1]).config = None
    try:
        kind = type(model)

        class Copies(kind):  # type: ignore[misc, valid-type]
            def __init__(self, config: Config):
                super().__init__(config)
                self.blocks[0].config = config
                self.blocks[1].config = copy.copy(config)

        model.__class__ = Copies
        grow(model, {STREAM: 8})
    finally:
        del type(model.blocks[1]).config
    assert model.blocks[0].config is model.config
    assert model.config.width == model.blocks[1].config.width == 8


def test_new_blocks_are_counted() -> None:
    model = built(Net)
    report = gk.grow(model, deepen={"blocks": 4}, example_inputs=rows())
    assert report.configs[0].describes
    assert model.config.layers == 4
    assert_described(model)


@pytest.mark.report("R028")
@pytest.mark.parametrize(("at", "hidden"), [([0], [5, 5, 6]), ([1], [5, 5, 6]), ([2, 2], [5, 6, 6, 6])])
def test_a_list_with_an_entry_for_each_block_gets_those_of_new_ones(at: list[int], hidden: list[int]) -> None:
    model = built(Net, hidden=[5, 6])
    before = model(rows())
    report = gk.grow(model, deepen={"blocks": gk.Insert(at=at)}, example_inputs=rows())
    assert report.configs[0].changes["hidden"] == ([5, 6], hidden)
    assert model.config.hidden == hidden
    assert_described(model)
    torch.testing.assert_close(model(rows()), before, rtol=0, atol=1e-12)


def test_without_inputs_sizes_alone_decide() -> None:
    model = built(Net)
    plan = gk.make_plan(gk.discover(model, rows()), {STREAM: 8})
    report = gk.grow(model, plan)
    assert report.configs[0].changes == {"width": (4, 8)}
    assert_described(model)


def test_all_of_it_is_taken_back() -> None:
    model = built(Net)
    plan = gk.make_plan(gk.discover(model, rows()), {STREAM: 8})
    resolved = resolve(plan, model)
    before = entries_of(model.config), model.width
    journal = Journal()
    list(replace_tensors(model, resolved.edits, journal))
    replace_numbers(model, plan.numbers, journal)
    bring_in_line(model, resolved, None, journal, {})
    assert (entries_of(model.config), model.width) != before
    journal.undo()
    assert (entries_of(model.config), model.width) == before


def test_nothing_is_said_of_models_without_a_config() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    report = gk.grow(model, widen={"0.weight[0]": 8}, example_inputs=rows())
    assert report.configs == ()


def test_a_family_is_found_by_the_name_of_its_class() -> None:
    class Special(Config):
        pass

    assert family_of(Special()) is not None
    assert family_of({}) is None


def test_a_model_that_computes_with_an_entry_keeps_it() -> None:
    model = built(Reader)
    before = model(rows())
    _, config = grow(model, HIDDEN)
    assert config.changes == {"hidden": (5, 10)}
    _, config = grow(model, {STREAM: 8})
    assert "computes something else" in config.problem
    assert model.config.width == 4
    torch.testing.assert_close(model(rows()), before, rtol=0, atol=1e-12)
