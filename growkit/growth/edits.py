"""New tensors as values: which old tensor, which maps, what new entries start as; not yet computed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import frexp, prod, sqrt

import torch
from torch import Tensor

from growkit import kernels
from growkit.axes.expressions import Role, leaves
from growkit.axes.layouts import Layout
from growkit.maps.lifting import DimMap, count_new
from growkit.maps.methods.method import Fill


@dataclass(frozen=True)
class Edit:
    """How one parameter or buffer grows.

    `bound`: new entries that are drawn come from the uniform distribution on [-bound, bound]; with None they
    are zero. `key`: what the draw is keyed by. `shift`: the tensor is used as shift + tensor, which is what grows. The
    same edit gives the value of every tensor that follows the parameter (an average of weights), with the same drawn
    entries.
    """

    name: str
    dims: tuple[DimMap | None, ...]
    shape: tuple[int, ...]
    bound: float | None
    key: str
    shift: float = 0.0

    @property
    def new_entries(self) -> int:
        """Number of entries that come from no old entry."""
        return count_new(self.shape, self.dims)

    def rounds(self, dtype: torch.dtype) -> bool:
        """Whether the scales of old entries round them.

        Powers of two do not, but in float16, in which weights are often so small that halves of them do not exist.
        """
        factors = {abs(factor) for dim in self.dims if dim is not None for factor in dim.value} - {0.0, 1.0}
        return any(frexp(factor)[0] != 0.5 or dtype == torch.float16 for factor in factors)

    @torch.no_grad()
    def value(self, old: Tensor) -> Tensor:
        """The grown tensor. Keeps dtype, device and memory format of `old`; shares no memory with it."""
        maps = [None if dim is None else (dim.source, dim.value) for dim in self.dims]
        grown = kernels.apply(old, maps)
        if old.device.type == "meta":
            return grown
        if self.shift:
            factors = kernels.apply(torch.ones_like(old), maps)
            grown += self.shift * (factors - 1)
        # zeros after draws: an entry that is new in two dims must not be read if either of them says so; means last
        for fill in (Fill.RANDOM, Fill.ONE, Fill.ZERO, Fill.MEAN):
            for number, dim in enumerate(self.dims):
                positions = () if dim is None else dim.positions(fill)
                if positions:
                    self._fill(grown, number, positions, fill)
        return grown

    @torch.no_grad()
    def gradient(self, old: Tensor) -> Tensor:
        """The gradient of the grown tensor, of that of the old one; zero for new entries.

        Law: G' = N_out^T G M_in^T, see `growkit.maps.axis_map`.
        """
        assert all(dim is None or dim.gradient is not None for dim in self.dims)
        return kernels.apply(old, [None if dim is None else (dim.source, dim.gradient or ()) for dim in self.dims])

    def _fill(self, grown: Tensor, number: int, positions: tuple[int, ...], fill: Fill) -> None:
        first, count = positions[0], len(positions)
        in_one_piece = positions[-1] - first == count - 1
        if fill is Fill.RANDOM and self.bound:
            drawn = self._drawn(number, count, grown)
            if in_one_piece:
                grown.narrow(number, first, count).copy_(drawn)
            else:
                grown.index_copy_(number, torch.tensor(positions, device=grown.device), drawn.to(grown))
        elif fill is Fill.MEAN:
            new = torch.tensor(positions, device=grown.device)
            old = torch.tensor(sorted({*range(grown.shape[number])} - {*positions}), device=grown.device)
            mean = grown.index_select(number, old).mean(number, keepdim=True)
            grown.index_copy_(number, new, mean.expand(*grown.shape[:number], count, *grown.shape[number + 1 :]))
        elif in_one_piece:
            grown.narrow(number, first, count).fill_((fill is Fill.ONE) - self.shift)
        else:
            grown.index_fill_(number, torch.tensor(positions, device=grown.device), (fill is Fill.ONE) - self.shift)

    def _drawn(self, number: int, count: int, like: Tensor) -> Tensor:
        """Drawn on the CPU in float32 whatever `like` is, so that copies in other dtypes get the same draw."""
        assert self.bound is not None
        shape = [count if d == number else size for d, size in enumerate(like.shape)]
        digest = hashlib.sha256(f"{self.key}/{number}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") % 2**63)
        return torch.empty(shape, dtype=torch.float32).uniform_(-self.bound, self.bound, generator=generator)


def edit(name: str, old: Tensor, layout: Layout, dims: Sequence[DimMap | None], key: str, shift: float = 0.0) -> Edit:
    """The edit of one tensor, with the scale of what is drawn.

    Weights are drawn as torch's own layers draw them, uniform within 1 / sqrt(fan_in) (He et al. 2015,
    arXiv 1502.01852, with a = sqrt(5)), fan_in counted in the grown net. Tables that consume nothing
    (embeddings) are drawn at the root mean square of their old entries; biases start at zero.
    """
    shape = tuple(size if dim is None else len(dim.source) for size, dim in zip(old.shape, dims, strict=True))
    roles = [{leaf.role for leaf in leaves(dim)} for dim in layout.dims]
    summed = [s for s, r in zip(shape, roles, strict=True) if Role.CONSUMES in r or not r & {Role.PRODUCES, Role.GAIN}]
    consumes = any(Role.CONSUMES in r for r in roles)
    gains = [Role.GAIN in r for r in roles]
    kernel = any(gains) and any(size > 1 and not gain for size, gain in zip(shape, gains, strict=True))
    bound = None
    if consumes or kernel:
        bound = 1 / sqrt(max(1, prod(summed)))
    elif old.dim() > 1 and old.device.type != "meta":
        bound = sqrt(3) * float(old.detach().double().square().mean().sqrt())
    if kernel:  # a gain of one belongs to a norm; the gain of a depthwise convolution is a kernel
        dims = [None if dim is None else _drawn(dim) for dim in dims]
    return Edit(name, tuple(dims), shape, bound, f"{key}/{name}/{'x'.join(map(str, old.shape))}", shift)


def _drawn(dim: DimMap) -> DimMap:
    fill = tuple(Fill.RANDOM if f is Fill.ONE else f for f in dim.fill)
    return DimMap(dim.old_size, dim.source, dim.value, dim.gradient, fill)
