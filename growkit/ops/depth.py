"""Insertion of blocks into a container that the caller names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor, nn

from growkit.discovery.inputs import as_inputs
from growkit.errors import DepthError
from growkit.growth.api import Optimizers, grow
from growkit.growth.depth import Insert
from growkit.growth.report import Report
from growkit.nn.block import ConformerBlock
from growkit.ops.conformer import inputs_of


class Stack(nn.Module):
    """Blocks one after the other, each called with the stream and what else the first was called with."""

    def __init__(self, blocks: nn.ModuleList | nn.Sequential):
        super().__init__()
        self.blocks = blocks

    def forward(self, stream: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """The stream after the last block."""
        for block in self.blocks:
            stream = block(stream, *args, **kwargs)
        return stream


def deepen(
    container: nn.ModuleList | nn.Sequential,
    index: int | Sequence[int],
    *,
    optimizers: Optimizers = None,
    followers: Iterable[nn.ModuleList | nn.Sequential] = (),
    example_inputs: Any = None,
) -> Report:
    """Inserts blocks that start as the identity, in place, at `index`: positions as in `list.insert`.

    A new block is a copy of the one before it whose branches add zero (see `growkit.grow`, `deepen`). Blocks must be
    residual, at most followed by a norm called `final_norm`. `example_inputs`: what a block is called
    with; for our Conformer blocks they are made. `followers`: the same container of copies of the model.

    Raises:
        DepthError: blocks that cannot start as the identity, a position outside the container, or other blocks than
            ours without inputs.
    """
    if not isinstance(container, nn.ModuleList | nn.Sequential) or not len(container):
        raise DepthError(
            f"a {type(container).__name__} of {len(container) if isinstance(container, nn.ModuleList) else 0} blocks",
            "a ModuleList or Sequential with at least one block",
            "pass the list that holds the blocks",
        )
    if example_inputs is None:
        first = container[0]
        if not isinstance(first, ConformerBlock):
            raise DepthError(
                f"blocks of type {type(first).__name__}, without example inputs",
                "example_inputs=, what one block is called with; for growkit's ConformerBlock they are made",
                "pass a tiny stream, such as torch.randn(2, 4, width)",
            )
        example_inputs = inputs_of(first)
    positions = [index] if isinstance(index, int) else list(index)
    return grow(
        Stack(container),
        deepen={"blocks": Insert(at=positions)},
        optimizers=optimizers,
        followers=[Stack(follower) for follower in followers],
        example_inputs=as_inputs(example_inputs),
    )
