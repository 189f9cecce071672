"""A Conformer of RETURNN, which keeps references of its own to its parameters: it grows by a factory.

RETURNN's `rf` modules hold `rf.Parameter` objects around torch's, and `Dim` objects for sizes: new tensors put into the
torch modules around them are not read.
"""

from __future__ import annotations

import returnn.frontend as rf
import torch
from returnn.frontend.encoder.conformer import ConformerConvSubsample, ConformerEncoder
from returnn.tensor import Dim
from returnn.tensor import Tensor as RfTensor
from returnn.torch.frontend.bridge import rf_module_to_pt_module
from torch import Tensor, nn

from growkit.growth.sizes import Sizes
from growkit.testing.zoo.entry import Entry, Size

FEATURES, LAYERS = 9, 2


class Conformer(nn.Module):
    """`features: 'batch time features', lengths: 'batch' -> 'batch time/2 width'`; computes in float64.

    The convolution inside the blocks is as wide as the stream, and so are the learned position vectors.
    """

    def __init__(
        self, features: int, channels: tuple[int, int], width: int, hidden: int, heads: int, head_dim: int, layers: int
    ):
        super().__init__()
        rf.select_backend_torch()
        self._features, total = Dim(features, name="features"), Dim(heads * head_dim, name="attention")
        subsampling = ConformerConvSubsample(
            self._features,
            out_dims=[Dim(size, name=f"channels_{i}") for i, size in enumerate(channels)],
            filter_sizes=[(3, 3), (3, 3)],
            pool_sizes=[(1, 2)],
            strides=[(1, 1), (2, 1)],
        )
        attention = {"key_dim_total": total, "value_dim_total": total, "learnable_pos_emb": True}
        with rf.set_default_float_dtype_ctx("float64"):
            self.encoder = rf_module_to_pt_module(
                ConformerEncoder(
                    self._features,
                    Dim(width, name="width"),
                    ff_dim=Dim(hidden, name="hidden"),
                    input_layer=subsampling,
                    encoder_layer_opts={"conv_kernel_size": 5, "self_att_opts": attention},
                    num_layers=layers,
                    num_heads=heads,
                    input_dropout=0.0,
                    dropout=0.0,
                    att_dropout=0.0,
                )
            )

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        """`'batch time features', 'batch' -> 'batch time/2 width'`"""
        rf.init_train_step_run_ctx(train_flag=self.training)  # which rf modules go by, not by the flag itself
        batch = Dim(features.shape[0], name="batch")
        time = Dim(RfTensor("time", [batch], dtype="int32", raw_tensor=lengths), name="time")
        x = RfTensor(
            "features", [batch, time, self._features], "float64", raw_tensor=features, feature_dim=self._features
        )
        out, _ = self.encoder(x, in_spatial_dim=time)
        result: Tensor = out.raw_tensor
        return result


def rebuild(sizes: Sizes) -> nn.Module:
    """A Conformer of the new sizes: what `growkit.grow` takes as `factory`."""
    return Conformer(
        features=FEATURES,
        channels=(sizes["conv_layers.0.filter[0]"], sizes["conv_layers.1.filter[0]"]),
        width=sizes["input_projection.weight[1]"],
        hidden=sizes["**.linear_ff.weight[1]"],
        heads=sizes["**.pos_bias_u[0]"],
        head_dim=sizes["**.pos_bias_u[1]"],
        layers=LAYERS,
    )


def _conformer(size: Size) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """The attention is as wide as the stream only where all sizes are equal."""
    model = Conformer(FEATURES, (size(6), size(10)), size(12), size(20), size(3), size(5), LAYERS)
    return model, (torch.randn(2, 29, FEATURES), torch.tensor([29, 23], dtype=torch.int32))


_STREAM = ("*.input_projection.weight[[]1[]]", "*.positionwise_conv1.weight[[]1[]].0", "*.pos_emb[[]1[]]")
_PER_HEAD = ("*.qkv.weight[[]1[]].1", "*.qkv.weight[[]1[]].3")
_SPECTRA = ("*.conv_layers.0.filter[[]1[]]", "*.input_projection.weight[[]0[]].0")
"""A spectrogram is one image, of a size that is that of the data."""
ENTRIES = (
    Entry(
        "RETURNN Conformer",
        _conformer,
        unwanted=_SPECTRA,
        factory=rebuild,
        joint=(_STREAM, ("*.linear_ff.weight[[]1[]]",), ("*.qkv.weight[[]1[]].0",), _PER_HEAD),
    ),
)
