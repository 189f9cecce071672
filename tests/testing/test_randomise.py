"""Models away from their initial values."""

import torch
from torch import nn

from growkit.testing import randomise
from tests.growth.nets import Tied, conformer


def test_nothing_keeps_its_initial_value() -> None:
    model = conformer().double()
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.is_floating_point():
            flat = tensor.detach().flatten()
            assert (flat != 0).all(), name
            assert (flat != 1).all(), name
            assert len(flat.unique()) == len(flat), name


@torch.no_grad()
def test_scales() -> None:
    """Outputs of order one, gains and variances between 0.5 and 1.5."""
    model = randomise(nn.Sequential(nn.Linear(400, 300), nn.BatchNorm1d(300)))
    assert 0.9 < float(model[0].weight.std()) * 400**0.5 < 1.1
    assert 0.8 < float(model[0].bias.std()) < 1.2
    for tensor in (model[1].weight, model[1].running_var):
        assert 0.5 <= float(tensor.min()) < 0.6
        assert 1.4 < float(tensor.max()) <= 1.5
    assert model[1].num_batches_tracked == 0


def test_seeds_and_names_decide() -> None:
    models = [nn.Linear(3, 4) for _ in range(3)]
    before = torch.get_rng_state()
    one, same, other = (randomise(model, seed) for model, seed in zip(models, (1, 1, 2), strict=True))
    assert torch.equal(one.weight, same.weight)
    assert not torch.equal(one.weight, other.weight)
    assert torch.equal(torch.get_rng_state(), before)


def test_ties_stay_and_the_model_is_given_back() -> None:
    model = Tied()
    assert randomise(model) is model
    assert model.head.weight is model.embedding.weight
