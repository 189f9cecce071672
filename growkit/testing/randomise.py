"""Models away from their initial values, where tests are blind: gains of one, biases and running means of zero."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor, nn


@torch.no_grad()
def randomise(model: nn.Module, seed: int = 0) -> nn.Module:
    """Draws every parameter and floating-point buffer anew, and gives the model back.

    Buffers that are not saved keep their values: they follow from the sizes, as the frequencies of rotary positions do.

    Weights 'out in ...' are normal with a standard deviation of 1 / sqrt(entries per output), so that
    activations stay of order one; vectors are normal; what is named a variance, and gains of norms, lie between
    0.5 and 1.5. Drawn by name, so that ties stay ties.
    """
    saved = model.state_dict(keep_vars=True)
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.is_floating_point() and name in saved:
            generator = torch.Generator().manual_seed(_seed(seed, name))
            tensor.copy_(_values(name, tensor, generator))
    return model


def _values(name: str, tensor: Tensor, generator: torch.Generator) -> Tensor:
    if "var" in name.rpartition(".")[2] or (tensor.dim() == 1 and name.endswith("weight")):
        return 0.5 + torch.rand(tensor.shape, generator=generator, dtype=torch.float64)
    normal = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
    per_output = tensor[0].numel() if tensor.dim() > 1 else 1
    return normal / max(1, per_output) ** 0.5


def _seed(seed: int, name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:7], "big")
