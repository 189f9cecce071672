"""The classifier."""

from __future__ import annotations

import torch

from growkit.nn import ConformerClassifier, ConformerEncoder


@torch.no_grad()
def test_classifies_the_mean_of_the_valid_frames() -> None:
    torch.manual_seed(0)
    model = ConformerClassifier(ConformerEncoder(3, 4, 6, 2, 1, 3), num_classes=5).double().eval()
    features, lengths = torch.randn(2, 6, 3, dtype=torch.float64), torch.tensor([6, 2])
    logits = model(features, lengths)
    out, _ = model.encoder(features, lengths)
    assert logits.shape == (2, 5)
    for i, length in enumerate(lengths.tolist()):
        mean = out[i, :length].mean(0)
        expected = model.output.weight @ mean + model.output.bias
        assert torch.allclose(logits[i], expected, rtol=1e-12)
