"""Conformer encoders of transformers, without weights of anyone."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers.models.fastspeech2_conformer.modeling_fastspeech2_conformer import FastSpeech2ConformerEncoder
from transformers.models.granite_speech.modeling_granite_speech import GraniteSpeechCTCEncoder
from transformers.models.seamless_m4t.modeling_seamless_m4t import SeamlessM4TSpeechEncoder
from transformers.models.seamless_m4t_v2.modeling_seamless_m4t_v2 import SeamlessM4Tv2SpeechEncoder

from growkit.testing.zoo.entry import Entry, Size, either
from growkit.testing.zoo.hf_speech import STREAM, stream_heads, stream_width, waveform, waveform_options

Built = tuple[nn.Module, Any]


def _wav2vec2_conformer(size: Size, positions: str) -> Built:
    options = waveform_options(size)
    if positions == "rotary":
        options["hidden_size"] *= 2  # heads of two pairs at least
    config = transformers.Wav2Vec2ConformerConfig(
        **options,
        conv_depthwise_kernel_size=5,
        position_embeddings_type=positions,
        max_source_positions=20,
    )
    return transformers.Wav2Vec2ConformerModel(config), waveform(size)


def wav2vec2_conformer(size: Size) -> Built:
    """Wav2Vec2-Conformer with relative positions."""
    return _wav2vec2_conformer(size, "relative")


def wav2vec2_conformer_rotary(size: Size) -> Built:
    """Wav2Vec2-Conformer with rotary positions, which it applies before query and key are projected."""
    return _wav2vec2_conformer(size, "rotary")


def wav2vec2_bert(size: Size) -> Built:
    """Wav2Vec2-BERT: embeddings of clipped distances, causal convolutions with layer norms."""
    config = transformers.Wav2Vec2BertConfig(
        hidden_size=stream_width(size),
        num_hidden_layers=2,
        num_attention_heads=stream_heads(size),
        intermediate_size=size(20),
        feature_projection_input_dim=size(10),
        left_max_position_embeddings=3,
        right_max_position_embeddings=2,
        conv_depthwise_kernel_size=5,
        max_source_positions=20,
    )
    return transformers.Wav2Vec2BertModel(config), torch.randn(size(2), size(7), size(10))


class FastSpeech2Encoder(nn.Module):
    """The encoder of FastSpeech2Conformer, as the model calls it."""

    def __init__(self, options: dict[str, Any]):
        super().__init__()
        config = transformers.FastSpeech2ConformerConfig(**options)
        self.encoder = FastSpeech2ConformerEncoder(config, config.encoder_config, use_encoder_input_layer=True)

    def forward(self, ids: Tensor) -> Tensor:
        """`'batch time' -> 'batch time stream'`"""
        return self.encoder(ids, None)[0]


def _fast_speech2(size: Size, **options: bool) -> Built:
    sizes = {
        "hidden_size": stream_width(size),
        "vocab_size": size(11),
        "encoder_layers": 2,
        "encoder_num_attention_heads": stream_heads(size),
        "encoder_linear_units": size(20),
        "encoder_kernel_size": 5,
        "max_source_positions": 20,
    }
    return FastSpeech2Encoder(sizes | options), torch.randint(1, 4, (size(2), size(7)))


def fast_speech2(size: Size) -> Built:
    """FastSpeech2Conformer: convolutions as feed-forward layers, post-norm, input times the root of the width."""
    return _fast_speech2(size)


def fast_speech2_concat(size: Size) -> Built:
    """FastSpeech2Conformer, pre-norm, with attention put beside its input and projected."""
    return _fast_speech2(size, encoder_normalize_before=True, encoder_concat_after=True)


def parakeet(size: Size) -> Built:
    """Parakeet: two-dimensional subsampling, relative positions, input times the root of the width."""
    config = transformers.ParakeetEncoderConfig(
        hidden_size=stream_width(size),
        num_hidden_layers=2,
        num_attention_heads=stream_heads(size),
        intermediate_size=size(20),
        conv_kernel_size=5,
        subsampling_factor=4,
        subsampling_conv_channels=size(6),
        num_mel_bins=either(size, 20, 16),
        max_position_embeddings=30,
    )
    return transformers.ParakeetEncoder(config), torch.randn(size(2), either(size, 28, 16), config.num_mel_bins)


def lasr(size: Size) -> Built:
    """Lasr: convolutions over time, rotary positions, norms without bias, weighted residual sums."""
    config = transformers.LasrEncoderConfig(
        hidden_size=2 * stream_width(size),
        num_hidden_layers=2,
        num_attention_heads=stream_heads(size),
        intermediate_size=size(20),
        conv_kernel_size=5,
        subsampling_conv_channels=size(6),
        num_mel_bins=size(10),
        max_position_embeddings=30,
    )
    return transformers.LasrEncoder(config), torch.randn(size(2), either(size, 33, 25), size(10))


def _seamless_options(size: Size) -> dict[str, Any]:
    return {
        "hidden_size": stream_width(size),
        "speech_encoder_layers": 2,
        "speech_encoder_attention_heads": stream_heads(size),
        "speech_encoder_intermediate_size": size(20),
        "feature_projection_input_dim": size(10),
        "adaptor_kernel_size": 3,
        "adaptor_stride": 2,
        "conv_depthwise_kernel_size": 5,
        "max_source_positions": 20,
        "num_conv_pos_embeddings": 5,
        "num_conv_pos_embedding_groups": 2,
    }


def seamless(size: Size) -> Built:
    """The speech encoder of SeamlessM4T: relative positions, adapter of gated strided convolutions."""
    return SeamlessM4TSpeechEncoder(transformers.SeamlessM4TConfig(**_seamless_options(size))), _frames(size)


def seamless_v2(size: Size) -> Built:
    """The speech encoder of SeamlessM4T v2: clipped distances, causal convolutions, attention in chunks."""
    options = {k: v for k, v in _seamless_options(size).items() if "num_conv_pos" not in k}
    config = transformers.SeamlessM4Tv2Config(
        **options,
        left_max_position_embeddings=3,
        right_max_position_embeddings=2,
        speech_encoder_chunk_size=3,
        speech_encoder_left_chunk_num=1,
    )
    return SeamlessM4Tv2SpeechEncoder(config), _frames(size)


def _frames(size: Size) -> dict[str, Tensor]:
    features = torch.randn(size(2), size(7), size(10))
    return {"input_features": features, "attention_mask": torch.ones(features.shape[:2], dtype=torch.long)}


def granite(size: Size) -> Built:
    """The speech encoder of Granite: attention in blocks, embedded distances, classes fed back in the middle."""
    config = transformers.GraniteSpeechEncoderConfig(
        input_dim=size(10),
        num_layers=2,
        hidden_dim=stream_width(size),
        feedforward_mult=2,
        num_heads=stream_heads(size),
        dim_head=size(5),
        output_dim=size(9),
        context_size=size(4),
        max_pos_emb=size(8),
        conv_kernel_size=5,
        conv_expansion_factor=2,
    )
    return GraniteSpeechCTCEncoder(config), torch.randn(size(2), size(7), size(10))


MASK = {"masked_spec_embed": f"{STREAM}:produces"}
ROTARY_MASK = {"masked_spec_embed": f"({STREAM}.0 [{STREAM}.1|{STREAM}.1]):produces"}

ONE_CHANNEL = ("*.conv_layers.0.conv.weight[[]1]",)
"""Sound in one channel."""

SPECTRA = ("subsampling.layers.0.weight[[]1]", "subsampling.linear.weight[[]1].1", "*.relative_k_proj.weight[[]1].1")
"""A spectrogram is one image, of a size that is that of the data; each frequency has one sine and one cosine."""

ENTRIES = (
    Entry("Wav2Vec2-Conformer, relative", wav2vec2_conformer, unwanted=ONE_CHANNEL, layouts=MASK),
    Entry("Wav2Vec2-Conformer, rotary", wav2vec2_conformer_rotary, unwanted=ONE_CHANNEL, layouts=ROTARY_MASK),
    Entry("Wav2Vec2-BERT", wav2vec2_bert, layouts=MASK),
    Entry("FastSpeech2Conformer encoder", fast_speech2),
    Entry("FastSpeech2Conformer encoder, concatenated", fast_speech2_concat),
    Entry("Parakeet encoder", parakeet, unwanted=SPECTRA),
    Entry("Lasr encoder", lasr),
    Entry("SeamlessM4T speech encoder", seamless),
    Entry("SeamlessM4T v2 speech encoder", seamless_v2),
    Entry("Granite speech encoder", granite),
)
