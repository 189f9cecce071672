"""Attention: heads grow whole, what queries and keys are contracted over does not."""

from __future__ import annotations

from growkit.constraints.activation import unscaled_units
from growkit.constraints.constraint import Constraint, never

CONSTRAINTS: dict[str, Constraint] = {
    # each head attends on its own, so copies and new heads do not disturb the others; of a head that is zero,
    # queries and keys would have no gradient for ever, each being the other's factor
    "per_head": unscaled_units,
    "contracted_activations": never("two activations are contracted over it, so copies would count twice in the sum"),
    "softmax": never("a softmax runs over it, so every new unit would take from the old ones"),
    "size_as_number": never("its size enters the computation as a number, such as the temperature 1/sqrt(size)"),
}
