"""Language models of transformers, without weights of anyone."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import Tensor, nn

from growkit.discovery.inputs import Inputs
from growkit.testing.zoo.entry import Entry, Size, either

Built = tuple[nn.Module, Any]


def _ids(size: Size) -> Tensor:
    return torch.randint(0, 4, (size(2), size(7)))


def gpt2(size: Size) -> Built:
    """GPT-2: learned positions, one matrix for queries, keys and values, a tied head."""
    config = transformers.GPT2Config(
        vocab_size=size(37),
        n_positions=either(size, 23, 4),
        n_embd=either(size, 15, 4),
        n_head=either(size, 3, 2),
        n_inner=size(21),
        n_layer=2,
    )
    return transformers.GPT2LMHeadModel(config), Inputs(_ids(size), use_cache=False)


ENTRIES = (Entry("GPT-2", gpt2),)
