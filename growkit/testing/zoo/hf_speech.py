"""Speech models of transformers, without weights of anyone."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import Tensor, nn

from growkit.testing.zoo.entry import Entry, Size, either

Built = tuple[nn.Module, Any]


def stream_width(size: Size) -> int:
    """Width of the stream: three heads of four, or two of two where all sizes are equal."""
    return either(size, 12, 4)


def stream_heads(size: Size) -> int:
    """Number of heads in a stream of `stream_width`."""
    return either(size, 3, 2)


def waveform_options(size: Size) -> dict[str, Any]:
    """What the configs of Wav2Vec2 and Wav2Vec2-Conformer share."""
    return {
        "hidden_size": stream_width(size),
        "num_hidden_layers": 2,
        "num_attention_heads": stream_heads(size),
        "intermediate_size": size(20),
        "conv_dim": (size(14), size(10)),
        "conv_stride": (5, 2),
        "conv_kernel": (10, 3),
        "num_conv_pos_embeddings": 5,
        "num_conv_pos_embedding_groups": 2,
        "vocab_size": size(9),
    }


def waveform(size: Size) -> Tensor:
    """`'batch samples'`"""
    return torch.randn(size(2), either(size, 113, 61))


def wav2vec2(size: Size) -> Built:
    """Wav2Vec2: convolutions over a waveform, weight-normed positional convolution in groups, post-norm layers."""
    config = transformers.Wav2Vec2Config(**waveform_options(size), feat_extract_norm="group")
    return transformers.Wav2Vec2Model(config), waveform(size)


def wav2vec2_stable(size: Size) -> Built:
    """Wav2Vec2 with layer norms in the feature extractor and pre-norm layers."""
    options = waveform_options(size) | {"feat_extract_norm": "layer", "do_stable_layer_norm": True, "conv_bias": True}
    return transformers.Wav2Vec2Model(transformers.Wav2Vec2Config(**options)), waveform(size)


def whisper(size: Size) -> Built:
    """Whisper: an encoder over frames and a causal decoder that reads it."""
    config = transformers.WhisperConfig(
        vocab_size=size(37),
        num_mel_bins=size(10),
        d_model=stream_width(size),
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=stream_heads(size),
        decoder_attention_heads=stream_heads(size),
        encoder_ffn_dim=size(20),
        decoder_ffn_dim=size(22),
        max_source_positions=size(17),
        max_target_positions=size(23),
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    features = torch.randn(size(2), size(10), 2 * size(17))
    ids = torch.randint(0, 4, (size(2), size(7)))
    inputs = {"input_features": features, "decoder_input_ids": ids, "use_cache": False}
    return transformers.WhisperForConditionalGeneration(config), inputs


STREAM = "feature_projection.projection.weight[0]"
MASK = {"masked_spec_embed": f"({STREAM}.0 {STREAM}.1):produces"}

ONE_CHANNEL = ("*.conv_layers.0.conv.weight[[]1]",)
"""Sound in one channel."""

ENTRIES = (
    Entry("Wav2Vec2", wav2vec2, unwanted=ONE_CHANNEL, layouts=MASK),
    Entry("Wav2Vec2, pre-norm", wav2vec2_stable, unwanted=ONE_CHANNEL, layouts=MASK),
    Entry("Whisper", whisper),
)
