"""Self-attention with relative positions."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class SelfAttention(nn.Module):
    """Norm, then multi-head self-attention over the valid frames: `'batch time model' -> 'batch time model'`.

    Head h weighs frame j for frame i by the softmax over valid j of

        ((q[i] + u) . k[j] + (q[i] + v) . W r[i - j]) / sqrt(head_dim)

    with u, v = `pos_bias_u`, `pos_bias_v` and W r[i - j] = `position` of the sinusoids of the offset i - j. All its
    sizes are independent of one another.

    Source: Dai et al. 2019 (arXiv 1901.02860), section 3.3 and appendix B.
    """

    growkit_sizes: ClassVar[dict[str, str]] = {"num_heads": "query.weight[0].0"}
    growkit_layouts: ClassVar[dict[str, str]] = {
        "norm.weight": "stream:gain",
        "norm.bias": "stream:bias",
        "query.weight": "(heads head_dim):produces stream:consumes",
        "query.bias": "(heads head_dim):produces",
        "pos_bias_u": "heads:produces head_dim:produces",
        "pos_bias_v": "heads:produces head_dim:produces",
        "key.weight": "(heads head_dim):produces stream:consumes",
        "key.bias": "(heads head_dim):produces",
        "value.weight": "(heads value_dim):produces stream:consumes",
        "value.bias": "(heads value_dim):produces",
        "position.weight": "(heads head_dim):produces position:consumes",
        "out.weight": "stream:produces (heads value_dim):consumes",
        "out.bias": "stream:produces",
    }
    growkit_passages: ClassVar[dict[str, tuple[str, ...]]] = {
        "stream": ("layer_norm norm",),
        "heads": ("per_head", "residual", "pointwise:masked_fill", "pointwise:softmax"),
        "head_dim": ("contracted_activations", "size_as_number"),
    }

    def __init__(self, model_dim: int, *, num_heads: int, head_dim: int, position_dim: int, dropout: float = 0.0):
        super().__init__()
        self.num_heads = num_heads
        self.norm = nn.LayerNorm(model_dim)
        self.query = nn.Linear(model_dim, num_heads * head_dim)
        self.key = nn.Linear(model_dim, num_heads * head_dim)
        self.value = nn.Linear(model_dim, num_heads * head_dim)
        self.position = nn.Linear(position_dim, num_heads * head_dim, bias=False)
        self.out = nn.Linear(num_heads * head_dim, model_dim)
        self.pos_bias_u = nn.Parameter(torch.zeros(num_heads, head_dim))
        self.pos_bias_v = nn.Parameter(torch.zeros(num_heads, head_dim))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, positions: Tensor, valid: Tensor) -> Tensor:
        """Attends.

        x: 'batch time model'; positions: 'offset position', see `RelativePositions`; valid: 'batch time', bool.
        """
        x = self.norm(x)
        query = self._split(self.query(x))
        key = self._split(self.key(x)).permute(0, 2, 3, 1)
        value = self._split(self.value(x)).transpose(1, 2)
        position = self._split(self.position(positions)).permute(1, 2, 0)

        content_score = (query + self.pos_bias_u).transpose(1, 2) @ key
        position_score = (query + self.pos_bias_v).transpose(1, 2) @ position
        score = (content_score + relative_shift(position_score)) * query.size(-1) ** -0.5
        weight = score.masked_fill(~valid[:, None, None, :], float("-inf")).softmax(-1)
        heads = (self.dropout(weight) @ value).transpose(1, 2)
        return self.dropout(self.out(heads.flatten(-2)))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, -1))


def relative_shift(score: Tensor) -> Tensor:
    """Scores by offset to scores by frame: `'batch heads time offset' -> 'batch heads time time'`.

    result[..., i, j] = score[..., i, time - 1 - i + j], which belongs to the offset i - j.

    Source: Dai et al. 2019 (arXiv 1901.02860), appendix B: one column of padding moves row i by i when the flat
    entries are read in rows that are one shorter.
    """
    time = score.size(-2)
    return F.pad(score, (1, 0)).flatten(-2)[..., time:].unflatten(-1, (time, -1))[..., :time]
