"""Models whose weights are computed from parameters before activations meet them, with their sizes free."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

from tests.discovery.models import Small, weight

Weight = Callable[[Small], Tensor]
Sizes = tuple[int, int, int, int, int]
"""Units of the input, of what the weight reads, of what it writes, of its rank, and of the output."""

ODD: Sizes = (5, 6, 7, 3, 2)
EQUAL: Sizes = (4, 4, 4, 4, 4)


def reads(sizes: Sizes, make: Weight, **parts: object) -> Small:
    """linear, computed weight, tanh, linear"""
    entering, read, written, _, leaving = sizes
    return Small(
        lambda m, x: m.leave(torch.tanh(F.linear(torch.tanh(m.enter(x)), make(m)))),
        enter=nn.Linear(entering, read),
        leave=nn.Linear(written, leaving),
        **parts,
    )


def _lora(sizes: Sizes) -> Small:
    _, read, written, rank, _ = sizes
    return reads(
        sizes, lambda m: m.w + 0.5 * (m.b @ m.a), w=weight(written, read), b=weight(written, rank), a=weight(rank, read)
    )


def _factors(sizes: Sizes) -> Small:
    _, read, written, rank, _ = sizes
    return reads(
        sizes, lambda m: m.c @ m.b @ m.a, c=weight(written, rank), b=weight(rank, rank + 1),
        a=weight(rank + 1, read),
    )  # fmt: skip


def _scaled_rank(sizes: Sizes) -> Small:
    _, read, written, rank, _ = sizes
    return reads(
        sizes, lambda m: m.b @ (m.e * m.a), b=weight(written, rank), e=weight(rank, 1), a=weight(rank, read)
    )  # fmt: skip


def _added(sizes: Sizes) -> Small:
    _, read, written, rank, _ = sizes
    return reads(
        sizes, lambda m: torch.addmm(m.w, m.b, m.a, alpha=0.3), w=weight(written, read), b=weight(written, rank),
        a=weight(rank, read),
    )  # fmt: skip


def _mask(sizes: Sizes) -> Small:
    _, read, written, *_ = sizes
    mask = torch.randint(0, 2, (written, read), generator=torch.Generator().manual_seed(0)).double()
    return reads(sizes, lambda m: m.w * m.mask, w=weight(written, read), mask=mask)


def _scales(sizes: Sizes) -> Small:
    _, read, written, *_ = sizes
    return reads(
        sizes, lambda m: m.rows[:, None] * (m.w / m.columns), w=weight(written, read), rows=weight(written),
        columns=weight(read),
    )  # fmt: skip


def _gated(sizes: Sizes) -> Small:
    _, read, written, *_ = sizes
    return reads(sizes, lambda m: m.w * torch.sigmoid(m.u), w=weight(written, read), u=weight(written, read))


def _outer(sizes: Sizes) -> Small:
    _, read, written, *_ = sizes
    return reads(sizes, lambda m: m.u[:, None] * m.v, u=weight(written), v=weight(read))


def _function(sizes: Sizes) -> Small:
    _, read, written, *_ = sizes
    return reads(sizes, lambda m: torch.tanh(m.w), w=weight(written, read))


def _square(sizes: Sizes) -> Small:
    _, read, written, *_ = sizes
    return reads(sizes, lambda m: m.w * m.w.abs(), w=weight(written, read))


def _stacked(sizes: Sizes) -> Small:
    entering, read, written, _, leaving = sizes
    return Small(
        lambda m, x: m.leave(torch.tanh(torch.einsum("bti,koi->bto", m.enter(x), torch.stack([m.p, m.q])))),
        enter=nn.Linear(entering, read), p=weight(written, read), q=weight(written, read),
        leave=nn.Linear(written, leaving),
    )  # fmt: skip


def _side_by_side(sizes: Sizes) -> Small:
    entering, read, written, rank, leaving = sizes

    def run(m: Small, x: Tensor) -> Tensor:
        return m.leave(torch.tanh(F.linear(torch.cat([m.a(x), m.b(x)], -1), torch.cat([m.p, m.q], 1))))

    return Small(
        run, a=nn.Linear(entering, read), b=nn.Linear(entering, rank), p=weight(written, read),
        q=weight(written, rank), leave=nn.Linear(written, leaving),
    )  # fmt: skip


def _weight_norm(sizes: Sizes, dim: int = 0) -> Small:
    entering, read, written, _, leaving = sizes
    return Small(
        lambda m, x: m.leave(torch.tanh(m.inner(torch.tanh(m.enter(x))))),
        enter=nn.Linear(entering, read), inner=parametrizations.weight_norm(nn.Linear(read, written), dim=dim),
        leave=nn.Linear(written, leaving),
    )  # fmt: skip


def _direction(sizes: Sizes) -> Small:
    _, read, written, *_ = sizes
    return reads(sizes, lambda m: m.g[:, None] * F.normalize(m.v), v=weight(written, read), g=weight(written))


def _positions(sizes: Sizes) -> Small:
    """A grouped convolution with one norm for each place of its kernel, as in wav2vec 2.0."""
    entering, *_, leaving = sizes
    inner = nn.Conv1d(6, 6, 3, padding=1, groups=2)

    def run(m: Small, x: Tensor) -> Tensor:
        x = m.enter(x)
        return m.leave(x + torch.tanh(m.inner(x.transpose(1, 2)).transpose(1, 2)))

    return Small(
        run, enter=nn.Linear(entering, 6), inner=parametrizations.weight_norm(inner, dim=2),
        leave=nn.Linear(6, leaving),
    )  # fmt: skip


COMPUTED: dict[str, Callable[[Sizes], Small]] = {
    "low rank, beside a weight": _lora,
    "three factors": _factors,
    "scaled rank": _scaled_rank,
    "added by addmm": _added,
    "mask": _mask,
    "scales of rows and columns": _scales,
    "gated entry by entry": _gated,
    "outer product": _outer,
    "function": _function,
    "square": _square,
    "stacked": _stacked,
    "side by side": _side_by_side,
    "weight norm of rows": _weight_norm,
    "weight norm of columns": lambda sizes: _weight_norm(sizes, 1),
    "normalised rows": _direction,
    "weight norm of places": _positions,
}
