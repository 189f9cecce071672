"""Double precision without a second copy of the weights."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from growkit.growth.float64 import float64
from tests.growth.nets import conformer, rows, utterances


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@torch.no_grad()
def test_a_model_runs_as_its_double_does(dtype: torch.dtype) -> None:
    model = conformer().eval().to(dtype)
    features, lengths = utterances()
    features = features.to(dtype)
    double = copy.deepcopy(model).double()(features.double(), lengths)
    with float64():
        result = model(features, lengths)
    assert result.dtype == torch.float64
    torch.testing.assert_close(result, double, rtol=1e-13, atol=1e-13)
    assert model(features, lengths).dtype == dtype


@torch.no_grad()
def test_casts_to_lower_floats_do_nothing() -> None:
    x = rows()
    with float64():
        results = [x.float(), x.to(torch.bfloat16), x.half(), F.softmax(x, -1, dtype=torch.float32), torch.ones(2)]
        assert all(r.dtype == torch.float64 for r in results)
        assert x.to(torch.int32).dtype == torch.int32
        assert x.bool().dtype == torch.bool
    assert torch.equal(results[0], x)


@torch.no_grad()
def test_layers_with_kernels_of_their_own() -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
    x = torch.randn(2, 3, 4)
    double = copy.deepcopy(layer).double()(x.double())
    with float64():
        torch.testing.assert_close(layer(x), double, rtol=1e-12, atol=1e-12)
