"""Factors that a growth brings into the computation, and what takes them out again.

A mean of squares over an axis, a sum of products over it, or its size used as a number change by a factor when the
axis grows. The factor is followed forward through the run until a parameter can take its inverse: the gain of a norm, a
weight that reads the value, or, where neither comes, the parameters above that scale the value (the queries, for the
temperature of attention). A float that is added on the way, such as the eps of a norm, takes the factor itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import torch

from growkit.axes.node import Join, Node
from growkit.axes.reading import leaf_nodes
from growkit.discovery.call import Nature
from growkit.discovery.cuts import Cuts, Leaf
from growkit.discovery.factors import NONE, Factor, number_of, summed, times
from growkit.discovery.floats import Floats
from growkit.discovery.graph import PARTIAL, WHOLE, Graph
from growkit.discovery.operations import Op, Value
from growkit.discovery.silences import Silences
from growkit.discovery.statistics import Statistics

Numbers = Mapping[tuple[int, str], Sequence[Sequence[Factor]]]
"""Factors of numbers that came out of sizes: by number of the op and name of the argument, choices for each size."""

_CARRY = WHOLE | PARTIAL | {"neg", "relu", "abs", "leaky_relu", "dropout", "native_dropout", "index", "cumsum"}
_POWERS = {"sqrt": Fraction(1, 2), "rsqrt": Fraction(-1, 2), "reciprocal": Fraction(-1), "square": Fraction(2)}
_KERNELS = frozenset(
    {
        "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_fused_attention_overrideable",
    }
)  # fmt: skip
_CONTRACTIONS = {
    "mm": ("self", "mat2"), "bmm": ("self", "mat2"), "addmm": ("mat1", "mat2"), "baddbmm": ("batch1", "batch2"),
    "mv": ("self", "vec"), "dot": ("self", "tensor"),
}  # fmt: skip
_READS = {**_CONTRACTIONS, "convolution": ("input", "weight")}
_TINY = 1e-6
"""A sum or norm that is kept above this much by a clamp is taken for one that is never that small."""
_ROUNDING = frozenset(torch.finfo(dtype).eps for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16))
"""What torch takes for an eps that is not given: it stays, which is no more than the rounding error of the net."""


class Scaling:
    """The factors of one run.

    `corrections`: what must take which factor, and where it comes from; a target is an occurrence of an axis in a
    parameter, the path of a float, or None if nothing can take it. `resolved`: what each op turned out to be that
    noted a passage. `silent`: occurrences in which new units of an axis are zero, by axis.
    """

    def __init__(self, graph: Graph, floats: Floats, numbers: Numbers):
        self.graph, self.cuts, self.silences, self.numbers = graph, Cuts(graph), Silences(graph), numbers
        self.corrections: list[tuple[Leaf | str | None, str, Factor]] = []
        self.floats = floats
        self.silent: dict[int, list[Leaf]] = defaultdict(list)
        self._factors: dict[Value, Factor] = {}
        self._statistics = Statistics(graph)
        for number, op in enumerate(graph.ops):
            self._statistics.see(number, op)
            self._follow(number, op)
        for value in graph.outputs:
            self._settle(value, -1, "output")
        self.resolved = self._statistics.finish()

    # One op

    def _follow(self, number: int, op: Op) -> None:
        results = self.graph.results(number)
        if not results:
            return
        made = self._made(number, op)
        if self.graph.changes_behind(number) and (made or any(map(self._of, op.values()))):
            self._take((), op.where, made or next(filter(None, map(self._of, op.values()))))
        for value in results:
            factor = {symbol: power for symbol, power in made.items() if power}
            if factor:
                self._factors[value] = factor

    def _made(self, number: int, op: Op) -> Factor:
        """The factor of what an op makes; factors that it cannot pass on are settled."""
        name, arguments = op.name, op.arguments
        if name in _KERNELS:
            return self._kernel(number, op)
        if name in _CONTRACTIONS and self._both_active(op):
            return self._contraction(number, op)
        if name in ("mean", "sum", "linalg_vector_norm"):
            return self._reduction(number, op)
        if name in ("native_layer_norm", "_fused_rms_norm"):
            return self._norm(number, op)
        if name in ("mul", "div"):
            return self._product(number, op)
        if name == "pow" and isinstance(arguments.get("exponent"), int | float):
            return times(self._of(arguments["self"]), Fraction(arguments["exponent"]).limit_denominator(64))
        if name in _POWERS:
            return times(self._of(arguments["self"]), _POWERS[name])
        given = [x for x in op.values() if self._of(x)] if self._factors else []
        if not given:
            return NONE
        zeros = name == "constant_pad_nd" and arguments.get("value", 0) == 0
        if name in _CARRY or zeros or (name == "clamp_min" and 0 < number_of(arguments.get("min")) <= _TINY):
            return self._of(given[0]) if given == [arguments["self"]] else self._stuck(number, op)
        if name in ("add", "sub") and self._added_float(number, op, given):
            return self._of(given[0])
        if name in ("add", "sub", "cat", "stack"):
            values = list(op.values())
            if all(self._of(value) == self._of(given[0]) for value in values) and len(values) > 1:
                return self._of(given[0])
        if name in _READS:
            return self._read(number, op)
        return self._stuck(number, op)

    def _of(self, value: Any) -> Factor:
        return self._factors.get(value, NONE) if isinstance(value, Value) else NONE

    def _stuck(self, number: int, op: Op) -> Factor:
        """Settles the factors of all operands of an op that does not pass them on."""
        for value in dict.fromkeys(op.values()):
            self._settle(value, number, op.where)
        return NONE

    def _settle(self, value: Value, reader: int, where: str) -> None:
        """Lets what is above a value take the inverse of its factor."""
        factor = self._of(value)
        if factor:
            self._take(self._above(value, reader, factor), where, factor)

    def _above(self, value: Value, reader: int, factor: Factor) -> tuple[Leaf, ...]:
        """Occurrences that scale a value, of one of the axes of the factor."""
        for _, serial in factor:
            cut = self.cuts.above(value, serial, reader)
            if cut is not None:
                return cut.leaves
        return ()

    def _take(self, leaves: tuple[Leaf, ...], where: str, factor: Factor) -> None:
        for leaf in leaves or (None,):
            self.corrections.append((leaf, where, times(factor, Fraction(-1))))

    def _of_number(self, number: int, name: str, met: Factor) -> Factor:
        """The factor of a number that came out of sizes; of one that sizes several axes, by those that it meets."""
        found = NONE
        for choices in self.numbers.get((number, name), ()):
            near = {serial for _, serial in met}.union(*map(self.graph.serials, self.graph.ops[number].values()))
            found = summed(found, next((one for one in choices if all(s in near for _, s in one)), choices[0]))
        return found

    # Products

    def _product(self, number: int, op: Op) -> Factor:
        left, right = op.arguments["self"], op.arguments["other"]
        sign = Fraction(-1 if op.name == "div" else 1)
        if op.arguments.get("rounding_mode"):
            return self._stuck(number, op)
        factor = summed(self._of(left), times(self._of(right), sign))
        for name, side in (("self", Fraction(1)), ("other", sign)):
            factor = summed(factor, times(self._of_number(number, name, factor), side))
        if op.name == "mul" and factor:
            for gain in (left, right):
                if isinstance(gain, Value) and self.graph.nature(gain) is Nature.WEIGHT:
                    leaves = self._above(gain, number, factor)
                    if leaves:
                        self._take(leaves, op.where, factor)
                        return NONE
        return factor

    def _read(self, number: int, op: Op) -> Factor:
        """A weight that reads a value with a factor takes its inverse; if it cannot, what is above does."""
        for name in _READS[op.name]:
            value, others = op.arguments[name], [op.arguments[n] for n in _READS[op.name] if n != name]
            factor = self._of(value)
            if factor and isinstance(others[0], Value) and self.graph.nature(others[0]) is Nature.WEIGHT:
                leaves = self._above(others[0], number, factor)
                if leaves:
                    self._take(leaves, op.where, factor)
                    continue
            if factor:
                self._settle(value, number, op.where)
        return NONE

    def _both_active(self, op: Op) -> bool:
        operands = [op.arguments[name] for name in _CONTRACTIONS[op.name]]
        return all(isinstance(x, Value) and self.graph.nature(x) is Nature.ACTIVATION for x in operands)

    def _contraction(self, number: int, op: Op) -> Factor:
        left, right = (op.arguments[name] for name in _CONTRACTIONS[op.name])
        over = self.graph.dims(left)[-1]
        energy = self._products_over(number, op, left, right, over)
        return summed(energy, summed(self._of(left), self._of(right)))

    def _kernel(self, number: int, op: Op) -> Factor:
        query, key, value = (op.arguments[name] for name in ("query", "key", "value"))
        over = self.graph.dims(query)[-1]
        factor = self._products_over(number, op, query, key, over)
        factor = summed(factor, summed(self._of(query), self._of(key)))
        if op.arguments.get("scale") is None:
            factor = summed(factor, times(self._spread("size", over) or NONE, Fraction(-1, 2)))
        factor = summed(factor, self._of_number(number, "scale", factor))
        mask = next(
            (op.arguments[name] for name in ("attn_mask", "attn_bias") if op.arguments.get(name) is not None), None
        )
        added = self._of(mask)
        above = self._above(mask, number, added) if isinstance(mask, Value) and added else ()
        if added and set(above) & set(self._scaling(query, factor) + self._scaling(key, factor)):
            # What scales the mask scales the products too: one factor for both, or none that fits.
            self._take(
                above if added == factor and set(above) == set(self._scaling(query, factor)) else (), op.where, added
            )
            return self._of(value)
        if added:
            self._take(above, op.where, added)
        if factor:
            leaves = self._above(query, number, factor) or self._above(key, number, factor)
            self._take(leaves, op.where, factor)
        return self._of(value)

    def _scaling(self, value: Value, factor: Factor) -> tuple[Leaf, ...]:
        """Occurrences that scale a value, whatever else they scale."""
        return tuple(leaf for _, serial in factor for leaf in self.silences.silencing(value, serial))

    def _products_over(self, number: int, op: Op, left: Value, right: Value, over: list[Node]) -> Factor:
        """The factor of a sum of products of activations, and which of both is silent in new units."""
        factor = self._spread("energy", over)
        # a temperature of its own is not known of parts that grow by themselves
        tempered = op.name in _KERNELS and op.arguments.get("scale") is None
        kind = "contracted_queries" if factor is not None else "contracted_tempered" if tempered else "contracted_part"
        whole = [leaf for node in over for leaf in leaf_nodes(self.graph.axes, node)]
        for serial in dict.fromkeys(self.graph.serial(node) for node in whole if self.graph.axes.named([node])):
            silent = self.silences.silencing_one(left, right, serial)
            better = kind if silent else None if silent is None else "contracted_alike"
            self._statistics.say("contracted_activations", op.where, [self.graph.axes.nodes[serial]], better)
            self.silent[serial] += silent or ()
        return factor or NONE

    def _spread(self, symbol: str, nodes: Iterable[Node]) -> Factor | None:
        """The exponents that a sum over a dim, or its size, has in its axes; None if its parts grow by themselves."""
        factor: Factor = {}
        for node in nodes:
            if not self.graph.axes.named([node]):
                continue
            parts = self.graph.axes.parts(node)
            if parts is None:
                factor = summed(factor, {(symbol, self.graph.serial(node)): Fraction(1)})
                continue
            inner = [self._spread(symbol, [part]) for part in parts.nodes]
            if parts.join is not Join.PRODUCT:
                inner = [inner[0] if all(x == inner[0] for x in inner) else None]
            for found in inner:
                if found is None:
                    return None
                factor = summed(factor, found)
        return factor

    # Statistics

    def _reduction(self, number: int, op: Op) -> Factor:
        value, kind = op.arguments["self"], op.name
        if self.graph.nature(value) is not Nature.ACTIVATION:
            return NONE
        norm = kind == "linalg_vector_norm"
        if norm and number_of(op.arguments.get("ord", 2)) != 2:
            return self._stuck(number, op)
        symbol = "energy" if norm or self._statistics.is_square(value) else "total"
        asked, dims = op.arguments.get("dim"), self.graph.dims(value)
        over = range(len(dims)) if asked in (None, []) else [asked] if isinstance(asked, int) else asked
        nodes = [node for d in over for node in dims[d]] if dims else []
        factor = self._spread(symbol, nodes)
        if any(map(self.graph.axes.named, [[node] for node in nodes])):
            known = None if factor is None else "mean_square" if symbol == "energy" else "sum"
            self._statistics.say(f"reduce:{kind}", op.where, nodes, known)
        factor = times(factor or NONE, Fraction(1, 2) if norm else Fraction(1))
        if kind == "mean":
            factor = summed(factor, times(self._spread("size", nodes) or NONE, Fraction(-1)))
        return summed(self._of(value), factor)

    def _norm(self, number: int, op: Op) -> Factor:
        value, weight = op.arguments["input"], op.arguments.get("weight")
        if self._of(value):
            self._settle(value, number, op.where)
        count = len(op.arguments["normalized_shape"])
        nodes = [node for dim in self.graph.dims(value)[-count:] for node in dim]
        energy, size = self._spread("energy", nodes), self._spread("size", nodes)
        if energy is None or size is None:  # a concatenation: its passages refuse what changes the statistics
            return NONE
        if not (statistic := summed(energy, times(size, Fraction(-1)))):
            return NONE
        self._float(number, op.arguments.get("eps"), statistic)
        factor = times(statistic, Fraction(-1, 2))
        if isinstance(weight, Value) and factor:
            self._take(self._above(weight, number, factor), op.where, factor)
            return NONE
        return factor

    # Floats

    def _added_float(self, number: int, op: Op, given: list[Value]) -> bool:
        """Whether a number is added that a module keeps as a float: it takes the factor itself."""
        other = op.arguments["other"] if op.arguments["self"] == given[0] else op.arguments["self"]
        if isinstance(other, Value | bool) or not isinstance(other, int | float):
            return False
        return other == 0 or self._float(number, float(other), self._of(given[0]))

    def _float(self, number: int, value: float | None, factor: Factor) -> bool:
        """Lets the float that an op was given take the factor; one that is a rounding error stays."""
        where = self.graph.ops[number].where
        place = None if value is None else self.floats.place(number, value)
        if place is not None:
            self.corrections.append((place, where, dict(factor)))
        elif value is not None and value not in _ROUNDING:
            self._take((), where, factor)
            return False
        return True
