"""The encoder as a whole."""

from __future__ import annotations

import pytest
import torch

from growkit.errors import SettingsError
from growkit.nn import ConformerEncoder
from growkit.nn.encoder import valid_frames


def make(**changes: int | float) -> ConformerEncoder:
    torch.manual_seed(0)
    sizes = {"model_dim": 4, "ffn_dim": 6, "num_heads": 2, "num_layers": 2, "kernel_size": 5, **changes}
    encoder = ConformerEncoder(3, **sizes).double()
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.normal_()
        for name, buffer in encoder.named_buffers():
            if name.endswith("running_mean"):
                buffer.normal_()
            elif name.endswith("running_var"):
                buffer.uniform_(0.5, 2.0)
    return encoder.eval()


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(3, 7, 3, dtype=torch.float64), torch.tensor([7, 1, 4])


def test_shapes() -> None:
    encoder = make(head_dim=3, conv_channels=5, position_dim=8)
    out, lengths = encoder(*inputs())
    assert out.shape == (3, 7, 4)
    assert lengths.tolist() == [7, 1, 4]
    assert encoder.num_layers == 2
    shapes = {name: tuple(parameter.shape) for name, parameter in encoder.layers[1].named_parameters()}
    assert shapes["attention.query.weight"] == (6, 4)
    assert shapes["attention.position.weight"] == (6, 8)
    assert shapes["attention.pos_bias_u"] == (2, 3)
    assert shapes["convolution.pointwise1.weight"] == (10, 4)
    assert shapes["convolution.depthwise.weight"] == (5, 1, 5)
    assert shapes["feed_forward2.linear1.weight"] == (6, 4)


@pytest.mark.parametrize("training", [False, True])
@torch.no_grad()
def test_padding_changes_nothing(training: bool) -> None:
    features, lengths = inputs()
    padded = torch.cat([features, torch.full((3, 4, 3), float("nan"), dtype=torch.float64)], dim=1)
    padded[~valid_frames(padded, lengths)] = float("nan")
    expected, _ = make().train(training)(features, lengths)
    found, _ = make().train(training)(padded, lengths)
    valid = valid_frames(features, lengths)
    assert torch.allclose(found[:, :7][valid], expected[valid], rtol=1e-12, atol=1e-12)


@torch.no_grad()
def test_a_sequence_alone_gives_what_it_gives_in_a_batch() -> None:
    encoder, (features, lengths) = make(), inputs()
    together, _ = encoder(features, lengths)
    for i, length in enumerate(lengths.tolist()):
        alone, _ = encoder(features[i : i + 1, :length], lengths[i : i + 1])
        assert torch.allclose(together[i, :length], alone[0], rtol=1e-12, atol=1e-12)


@torch.no_grad()
def test_is_sensitive_to_order() -> None:
    encoder, (features, _) = make(), inputs()
    lengths = torch.tensor([7, 7, 7])
    forwards, _ = encoder(features, lengths)
    backwards, _ = encoder(features.flip(1), lengths)
    assert (forwards - backwards.flip(1)).abs().max() > 1e-3


@pytest.mark.parametrize("training", [False, True])
def test_gradients_reach_every_parameter(training: bool) -> None:
    encoder, (features, lengths) = make().train(training), inputs()
    out, _ = encoder(features, lengths)
    out[valid_frames(out, lengths)].pow(3).sum().backward()
    # A constant added to all keys leaves the softmax as it is, so the bias of the keys has none (Dai et al. 2019 drop
    # it); nor has the bias before a batch norm that takes the mean out.
    without = {"attention.key.bias"} | ({"convolution.depthwise.bias"} if training else set())
    for name, parameter in encoder.named_parameters():
        largest = parameter.grad.abs().max().item()
        local = name.split(".", 2)[-1]
        assert (largest < 1e-6) if local in without else (largest > 1e-6), (name, largest)


def test_runs_in_float32_as_in_float64() -> None:
    encoder, (features, lengths) = make(), inputs()
    with torch.no_grad():
        exact, _ = encoder(features, lengths)
        rounded, _ = encoder.float()(features.float(), lengths)
    assert rounded.dtype == torch.float32
    assert torch.allclose(rounded.double(), exact, rtol=1e-3, atol=1e-3)


def test_heads_that_do_not_share_the_model_dim_are_refused() -> None:
    with pytest.raises(SettingsError) as caught:
        make(num_heads=3)
    assert caught.value.given == "model_dim 4 with num_heads 3"
    assert "head_dim of its own" in caught.value.allowed
    assert caught.value.next_step == "pass head_dim=1, or a model_dim of 3 times the head_dim"
    assert make(num_heads=3, head_dim=2).layers[0].attention.query.out_features == 6
