"""What a module holds."""

import torch
from torch import nn

from growkit.nn.contents import Contents, aliases_of, module_types, qualified_name, tensors_of
from tests.growth.nets import Tied, residual


def test_tensors_come_once_parameters_first() -> None:
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2, bias=False))
    names = ["0.weight", "0.bias", "1.weight", "0.running_mean", "0.running_var", "0.num_batches_tracked"]
    assert list(tensors_of(model)) == names
    assert "head.weight" not in tensors_of(Tied())


def test_contents_are_what_the_model_gives_by_name() -> None:
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Sequential(nn.Linear(2, 2)))
    model.sizes = {"width": 2}
    contents = Contents(model)
    assert contents.modules == dict(model.named_modules())
    assert {**contents.parameters, **contents.buffers} == tensors_of(model)
    assert contents.holders == (("sizes", model.sizes),)


def test_tied_tensors_have_aliases() -> None:
    assert aliases_of(Tied()) == {"head.weight": "embedding.weight"}
    assert aliases_of(residual()) == {}


def test_types_by_path() -> None:
    inner = nn.Sequential(nn.Linear(1, 1))
    assert module_types(nn.Sequential(inner)) == {
        "": "torch.nn.modules.container.Sequential",
        "0": "torch.nn.modules.container.Sequential",
        "0.0": "torch.nn.modules.linear.Linear",
    }


def test_names_of_nested_classes() -> None:
    class Own:
        pass

    assert qualified_name(torch.optim.Adam) == "torch.optim.adam.Adam"
    assert qualified_name(Own) == "tests.nn.test_contents.test_names_of_nested_classes.<locals>.Own"
