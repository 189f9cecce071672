"""Sizes by name, as a factory gets them."""

import pytest
from torch import nn

from growkit import Insert, Plan, discover, make_plan
from growkit.errors import NameLookupError
from growkit.growth.sizes import Sizes, sizes_after
from growkit.nn import ConformerEncoder
from tests.growth.nets import residual, rows, utterances


def test_a_size_is_found_by_name_end_and_glob() -> None:
    sizes = Sizes({"a.up.weight[0]": 7, "b.up.weight[0]": 7, "a.down.weight[0]": 4, "a.heads": 2})
    assert sizes["a.up.weight[0]"] == sizes["up.weight[0]"] == sizes["*.up.weight[0]"] == 7
    assert sizes["heads"] == sizes.get("heads") == 2
    assert sizes.get("width", 3) == 3
    assert "heads" in sizes
    assert "width" not in sizes
    assert dict(sizes)["a.heads"] == 2


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("up.weigth[0]", "did you mean 'up.weight.0.'"),
        ("zzz", r"print\(dict"),
        ("**.weight[0]", "= 4, down"),
    ],
)
def test_unknown_names_and_names_of_several_sizes_are_refused(name: str, text: str) -> None:
    sizes = Sizes({"up.weight[0]": 7, "a.down.weight[0]": 4, "down.weight[0]": 5})
    with pytest.raises(NameLookupError, match=text):
        sizes[name]


def test_sizes_after_a_growth_in_width() -> None:
    encoder = ConformerEncoder(3, 4, 5, 2, 1, 3).double()
    plan = make_plan(discover(encoder, utterances()), {"num_heads": 4, "ffn_dim": 9})
    sizes = sizes_after(Plan.from_json(plan.to_json()))
    assert (sizes["num_heads"], sizes["ffn_dim"], sizes["model_dim"]) == (4, 9, 4)
    assert (sizes["attention.query.weight[0]"], sizes["query.weight[0].0"], sizes["query.weight[0].1"]) == (8, 4, 2)
    assert sizes["layers"] == 1
    assert sizes["0.final_norm.normalized_shape[0]"] == 4


def test_sizes_after_a_growth_in_depth() -> None:
    """The second block, wider than the others, moves; the new one is like the first."""
    model = residual()
    plan = make_plan(discover(model, rows()), {"blocks.1.up.weight[0]": 7}, {"blocks": Insert(at=[1])})
    sizes = sizes_after(plan)
    assert sizes["blocks"] == 3
    assert [sizes[f"blocks.{i}.up.weight[0]"] for i in range(3)] == [5, 5, 7]
    assert [sizes[f"blocks.{i}.up.out_features"] for i in range(3)] == [5, 5, 7]
    assert "blocks.3.up.weight[0]" not in sizes


def test_a_declared_label_is_a_name() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    table = discover(model, rows(), {"0.weight": "hidden features"})
    assert sizes_after(make_plan(table, {"hidden": 6}))["hidden"] == 6
