"""How one axis grows: which old unit each new unit comes from, and by what scales.

With activations h of the small net and h' of the grown one, an `AxisMap` is a pair:

    expand    M: h'[j] = expand[j] * h[source[j]]                    (new x old)
    contract  N: h[i]  = sum of contract[j] * h'[j] over copies j    (old x new),  N M = I

Weights move as W' = M_out W N_in (Chen et al. 2015, Net2Net, eq. 6, for shares 1/count), and their
gradients by the transposes, G' = N_out^T G M_in^T. Which scale a tensor meets follows from the role of
the axis in it, see `value_factors` and `gradient_factors`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import isclose

from growkit.axes.expressions import Role
from growkit.errors import MapError

NEW = -1
"""Source of a unit that has no old unit."""

_VALUE: dict[Role | None, Callable[[float, float], float]] = {
    Role.PRODUCES: lambda m, n: m,
    Role.CONSUMES: lambda m, n: n,
    Role.GAIN: lambda m, n: 1.0,
    Role.BIAS: lambda m, n: m,
    Role.READOUT: lambda m, n: n / m if m else 0.0,
    Role.MEAN: lambda m, n: m,
    Role.VARIANCE: lambda m, n: m * m,
    None: lambda m, n: 1.0,
}
_GRADIENT: dict[Role | None, Callable[[float, float], float]] = {
    Role.PRODUCES: lambda m, n: n,
    Role.CONSUMES: lambda m, n: m,
    Role.GAIN: lambda m, n: n * m,
    Role.BIAS: lambda m, n: n,
    Role.READOUT: lambda m, n: m * m,
}


@dataclass(frozen=True)
class AxisMap:
    """A map from `old_size` units to `len(source)` units.

    `source`, `expand`, `contract`: one entry per new unit; new units have source -1 and scales 0. With `padded`, new
    units carry zero at first, so that their readers are free; with `averaged` they carry the mean of the units, which
    a layer norm makes zero; else they carry anything, and their readers are zero.

    Law: for every old unit, the sum of expand * contract over its copies is 1.

    Raises:
        MapError: lengths differ, a source is out of range, a new unit has scales, an old unit is lost, or the law is
            broken.
    """

    old_size: int
    source: tuple[int, ...]
    expand: tuple[float, ...]
    contract: tuple[float, ...]
    padded: bool = False
    averaged: bool = False

    def __post_init__(self) -> None:
        if not len(self.source) == len(self.expand) == len(self.contract):
            raise MapError(
                f"source, expand and contract of lengths {len(self.source)}, {len(self.expand)}, {len(self.contract)}",
                "equal lengths: one entry per new unit",
                "give each new unit a source and two scales",
            )
        totals = [0.0] * self.old_size
        for unit, m, n in zip(self.source, self.expand, self.contract, strict=True):
            if not NEW <= unit < self.old_size:
                raise MapError(
                    f"source {unit} on an axis of {self.old_size} units",
                    f"-1 for a new unit, or 0 to {self.old_size - 1}",
                    "mend the sources of the method",
                )
            if unit != NEW:
                totals[unit] += m * n
            elif m != 0 or n != 0:
                raise MapError(
                    f"a new unit with the scales {m} and {n}",
                    "scales 0 where the source is -1: nothing old comes from it or goes to it",
                    "mend the scales of the method; what new units start as is up to its fills",
                )
        for unit, total in enumerate(totals):
            if not isclose(total, 1.0, rel_tol=1e-12):
                raise MapError(
                    f"the copies of unit {unit} have expand * contract summing to {total:.12g}",
                    "a sum of 1 for every old unit, so that contract after expand is the identity",
                    "give each old unit at least one copy, and copies shares that sum to 1",
                )

    @classmethod
    def identity(cls, size: int) -> AxisMap:
        """The map that changes nothing."""
        ones = (1.0,) * size
        return cls(size, tuple(range(size)), ones, ones)

    @classmethod
    def copies(cls, old_size: int, source: tuple[int, ...], *, padded: bool = False, averaged: bool = False) -> AxisMap:
        """Plain copies: expand 1, contract 1 / number of copies; source -1 makes a new unit."""
        counts = Counter(source)
        return cls(
            old_size,
            source,
            tuple(0.0 if i == NEW else 1.0 for i in source),
            tuple(0.0 if i == NEW else 1.0 / counts[i] for i in source),
            padded,
            averaged,
        )

    def scaled(self, by: float) -> AxisMap:
        """The map with every copy multiplied by a number, and read through its inverse."""
        expand, contract = (m * by for m in self.expand), (n / by for n in self.contract)
        return replace(self, expand=tuple(expand), contract=tuple(contract))

    @property
    def new_size(self) -> int:
        """Number of units after growth."""
        return len(self.source)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Number of copies of each old unit."""
        counts = Counter(self.source)
        return tuple(counts[i] for i in range(self.old_size))

    @property
    def has_new(self) -> bool:
        """Whether some units have no source."""
        return NEW in self.source

    @property
    def uniform(self) -> bool:
        """Whether it only copies, each unit equally often, with equal scales and shares."""
        return not self.has_new and len(set(self.counts)) == len(set(self.expand)) == len(set(self.contract)) == 1

    @cached_property
    def energy(self) -> float | None:
        """Sum of squares after growth over that before, the same for all activations; None if there is no such number.

        New units count for nothing: they are zero here, or meet zeros.
        """
        return self._total(2)

    @cached_property
    def total(self) -> float | None:
        """Sum of the units after growth over that before, as `energy`; units that are averages add to it."""
        total = self._total(1)
        return self.new_size / self.old_size if total is not None and self.averaged else total

    @cached_property
    def self_dual(self) -> bool:
        """Whether contract is expand / energy: products of activations then change by one factor, and gradients too."""
        energy = self.energy
        return energy is not None and all(
            isclose(n * energy, m, rel_tol=1e-12) for m, n in zip(self.expand, self.contract, strict=True)
        )

    def _total(self, degree: int) -> float | None:
        totals = [0.0] * self.old_size
        for unit, scale in zip(self.source, self.expand, strict=True):
            if unit != NEW:
                totals[unit] += scale**degree
        return totals[0] if all(isclose(total, totals[0], rel_tol=1e-12) for total in totals) else None

    def value_factors(self, role: Role | None) -> tuple[float, ...]:
        """Factor of each new unit in a tensor where the axis has this role."""
        rule = _VALUE[role]
        return tuple(rule(m, n) for m, n in zip(self.expand, self.contract, strict=True))

    def gradient_factors(self, role: Role | None) -> tuple[float, ...]:
        """Factor of each new unit in the gradient of such a tensor.

        Raises:
            MapError: for a role without gradient (running statistics, labels).
        """
        if role not in _GRADIENT:
            raise MapError(
                f"gradient factors for the role {role.value if role else None!r}",
                ", ".join(r.value for r in _GRADIENT if r),
                "running statistics and labels have no gradient: map the value",
            )
        rule = _GRADIENT[role]
        return tuple(rule(m, n) for m, n in zip(self.expand, self.contract, strict=True))

    def then(self, later: AxisMap) -> AxisMap:
        """This map followed by `later`, as one map.

        Raises:
            MapError: the sizes do not meet.
        """
        if later.old_size != self.new_size:
            raise MapError(
                f"a map to {self.new_size} units followed by one from {later.old_size}",
                "equal sizes where they meet",
                "compose maps in the order in which the axis grew",
            )

        def chain(scales: tuple[float, ...], later_scales: tuple[float, ...]) -> tuple[float, ...]:
            return tuple(
                0.0 if unit == NEW else scales[unit] * scale
                for unit, scale in zip(later.source, later_scales, strict=True)
            )

        return AxisMap(
            self.old_size,
            tuple(NEW if unit == NEW else self.source[unit] for unit in later.source),
            chain(self.expand, later.expand),
            chain(self.contract, later.contract),
            {m.padded for m in (self, later) if m.has_new} == {True},
            {m.averaged for m in (self, later) if m.has_new} == {True},
        )
