"""Growth of our Conformer by the names of its sizes, without sample inputs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from growkit.discovery.inputs import Inputs
from growkit.errors import InputsError
from growkit.growth.api import Optimizers, grow
from growkit.growth.followers import Follower
from growkit.growth.report import Report
from growkit.growth.width import Methods
from growkit.nn.block import ConformerBlock
from growkit.nn.classifier import ConformerClassifier
from growkit.nn.encoder import ConformerEncoder

_TIME = 4


def widen_conformer(
    model: ConformerEncoder | ConformerClassifier | ConformerBlock,
    *,
    model_dim: int | float | None = None,
    ffn_dim: int | float | None = None,
    num_heads: int | float | None = None,
    conv_channels: int | float | None = None,
    optimizers: Optimizers = None,
    followers: Follower | Iterable[Follower] | None = None,
    method: Methods = None,
    seed: int = 0,
) -> Report:
    """Widens an encoder, or one block of it, in place: sizes as ints, or factors as floats.

    `ffn_dim` is that of both feed-forwards of each block, `num_heads` and `conv_channels` of each block. The stream,
    `model_dim`, is common to all blocks, so it grows with the encoder only, to a multiple of its size. The result is
    checked on random features. Other arguments as in `growkit.grow`.

    Raises:
        GrowkitError: a size cannot be reached, and which can; everything is as before.
    """
    sizes = {"model_dim": model_dim, "ffn_dim": ffn_dim, "num_heads": num_heads, "conv_channels": conv_channels}
    return grow(
        model,
        widen={name: size for name, size in sizes.items() if size is not None},
        optimizers=optimizers,
        followers=followers,
        method=method,
        seed=seed,
        example_inputs=inputs_of(model),
    )


def inputs_of(model: nn.Module) -> Any:
    """Random inputs of an encoder (features and lengths) or of a block (stream, positions, valid frames).

    Raises:
        InputsError: another module.
    """
    generator = torch.Generator().manual_seed(0)

    def random(like: Tensor, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(like)

    encoder = model.encoder if isinstance(model, ConformerClassifier) else model
    if isinstance(encoder, ConformerEncoder):
        weight = encoder.input_projection.weight
        lengths = torch.tensor([_TIME, _TIME - 1], device=weight.device)
        return Inputs(random(weight, 2, _TIME, weight.size(1)), lengths)
    if isinstance(encoder, ConformerBlock):
        weight, position = encoder.attention.query.weight, encoder.attention.position.weight
        valid = torch.tensor([[True] * _TIME, [True] * (_TIME - 1) + [False]], device=weight.device)
        return Inputs(random(weight, 2, _TIME, weight.size(1)), random(weight, 2 * _TIME - 1, position.size(1)), valid)
    raise InputsError(
        f"a {type(model).__name__}",
        "a ConformerEncoder, ConformerClassifier or ConformerBlock of growkit.nn",
        "call growkit.grow with example inputs of your model",
    )
