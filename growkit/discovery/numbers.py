"""Which ints of the modules are sizes of which axes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import islice, product
from types import MappingProxyType

from growkit.axes.axis import Equality, Lock, Number, Passage
from growkit.axes.union_find import Axes
from growkit.discovery import polynomials
from growkit.discovery.arithmetic import computed, undo_left, undo_right
from growkit.discovery.call import DECLARE, OTHERS
from growkit.discovery.comparisons import bounded, stays
from growkit.discovery.factors import Factor
from growkit.discovery.polynomials import Polynomial
from growkit.discovery.size_floats import Powers
from growkit.discovery.taint import Attribute, Comparison, Computed, Literal, Origin, SizeOf
from growkit.discovery.uses import Use, Uses

KEEP = "let the module keep the size in an int attribute, or take it from a tensor's shape"
_MOST_VALUES = 1000
"""An entry of a config is a size in each layer; products of such are not followed for ever."""
_NONE: Mapping[int, Polynomial] = MappingProxyType({})
_UNKNOWN = "its size is computed from numbers of which it is not known how they would grow"


class Numbers:
    """Solves what was seen of ints for the size that each attribute is.

    Axes whose sizes cannot follow are locked. The expressions call axes by the serial numbers of their roots.
    """

    def __init__(self, axes: Axes, uses: Uses, values: Mapping[Attribute, int]):
        self.axes, self.values = axes, values
        self.known: dict[Attribute, list[Polynomial]] = {}
        self.loose: set[tuple[str, int | None]] = set()
        """After `numbers`: the attributes that are sizes of what no parameter holds, and of nothing else."""
        self.equalities: list[Equality] = []
        self._equals = self._made_equal(uses)
        self._solve(uses.sizes)
        for dims, where in uses.equal:
            sizes = [polynomials.size_of(axes, dim) for dim in dims]
            self._equal(sizes, where)
        for comparison, where in self._explained_by_equality(uses.compared):
            self._compared(comparison, where)
        for origin, where in uses.numeric:
            self._number(self._axes_of(origin), where)
        for origin, where in uses.unexplained:
            names = "".join(f" {attribute.path}" for attribute in attributes_in(origin))
            reason = f"its size{names} is given to an op that does not say what it does with it"
            self._lock(self._axes_of(origin), Lock(reason, where, OTHERS))

    def numbers(self) -> list[Number]:
        """The attributes that are sizes of axes which parameters or buffers hold."""
        found = []
        for attribute, sizes in self.known.items():
            serials = set().union(*map(polynomials.axes_in, sizes))
            held = {serial for serial in serials if self._held(serial)}
            expressions = [polynomials.as_expression(size) for size in sizes]
            followed = [e for e in expressions if e is not None]
            if held == serials and len(followed) == len(sizes) and serials:
                found.append(
                    Number(attribute.path, attribute.index, self.values[attribute], tuple(followed), read=True)
                )
            elif held:
                self._lock(held, also_of_others(attribute.path))
            elif serials:
                self.loose.add((attribute.path, attribute.index))
        return found

    def factors(self, powers: Powers, where: str) -> list[list[Factor]]:
        """The exponents that a number made of sizes has in those of axes, for each of the sizes.

        Several for a size of several axes, which one attribute keeps for all of them: any of them is right.
        """
        found = []
        for origin, power in powers:
            sizes = self._values(origin, certain=False)
            exponent = Fraction(power).limit_denominator(64)
            choices = [{("size", serial): exponent * count for serial, count in Counter(next(iter(size))).items()}
                       for size in sizes if len(size) == 1]  # fmt: skip
            if choices:
                found.append(choices)
            else:
                self._number(self._axes_of(origin), where)
        return found

    def _solve(self, uses: Iterable[Use]) -> None:
        waiting = [(use.origin, polynomials.size_of(self.axes, use.dim), use.where) for use in uses]
        for certain in (True, False):
            progress = True
            while progress:
                left = [item for item in waiting if not self._explain(*item, certain)]
                progress, waiting = len(left) < len(waiting), left
        for _, size, where in waiting:
            self._lock(polynomials.axes_in(size), Lock(_UNKNOWN, where, KEEP))

    def _made_equal(self, uses: Uses) -> dict[int, Polynomial]:
        """Axes that some calls make equal to other sizes, by serial number, with these sizes."""
        found: dict[int, Polynomial] = {}
        for dims, _ in uses.equal:
            sizes = [polynomials.substitute(polynomials.size_of(self.axes, dim), found) for dim in dims]
            for size in sizes:
                axes = polynomials.axes_in(size)
                other = next((p for p in sizes if not axes & polynomials.axes_in(p)), None)
                if other is not None and size == {tuple(axes): 1} and len(axes) == 1:
                    found[axes.pop()] = other
        return found

    def _explain(self, origin: Origin, size: Polynomial, where: str, certain: bool) -> bool:
        """Uses `origin == size`. False: too little is known yet; `certain` says to wait rather than to assume."""
        match origin:
            case Literal(value):
                reason = f"its size {value} is written in the code, or was lost on its way, where it is used as a size"
                self._lock(polynomials.axes_in(size), Lock(reason, where, KEEP))
                return True
            case SizeOf(dim):
                self._equal([polynomials.size_of(self.axes, dim), size], where)
                return True
            case Attribute():
                known = self.known.setdefault(origin, [])
                if size not in known:
                    known.append(size)
                return True
            case Computed(sign, left, right):
                return self._explain_computed(sign, left, right, size, where, certain)

    def _explain_computed(
        self, sign: str, left: Origin, right: Origin, size: Polynomial, where: str, certain: bool
    ) -> bool:
        a, b = self._values(left, certain), self._values(right, certain)
        if a and b:
            if not self._explained(sign, left, right, size):
                if sign == "//":
                    self._equal([a[0], polynomials.multiply(b[0], size)], where)
                elif sign == "%":
                    self._lock(set().union(*map(polynomials.axes_in, (a[0], b[0], size))), Lock(_UNKNOWN, where, KEEP))
                else:
                    self._equal([one for one in (computed(sign, a[0], b[0]), size) if one is not None], where)
            return True
        if not a and not b:
            return False
        rest = self._undone(sign, size, a, b)
        return rest is not None and self._explain(left if not a else right, rest, where, certain)

    def _explained(self, sign: str, left: Origin, right: Origin, size: Polynomial) -> bool:
        """Whether sizes that are equal for other reasons make `left (sign) right` this size, as those of one attribute.

        A product with an attribute that is the size of other axes already says that it is the size of these too.
        """
        a, b = self._values(left, certain=False), self._values(right, certain=False)
        if sign not in ("//", "%") and any(computed(sign, x, y) == size for x, y in product(a, b)):
            return True
        if sign == "//" and any(polynomials.multiply(y, size) == x for x, y in product(a, b)):
            return True
        for attribute, known in ((left, self._undone(sign, size, [], b)), (right, self._undone(sign, size, a, []))):
            followed = known is not None and polynomials.axes_in(known) and polynomials.as_expression(known) is not None
            if sign == "*" and followed and isinstance(attribute, Attribute) and attribute in self.known:
                return self._explain(attribute, known or {}, "", False)
        return False

    def _undone(
        self, sign: str, size: Polynomial, a: Sequence[Polynomial], b: Sequence[Polynomial]
    ) -> Polynomial | None:
        """The operand that has no values in a (sign) b = size, by those values of the other that give a plain one.

        Three equal parts of 2 e + p, 2 e + p and v units are 3 (2 e + p), though not 3 of anything as it is.
        """
        found = []
        for same in ({}, self._equals):
            reduced = polynomials.substitute(size, same)
            for known in a or b:
                other = polynomials.substitute(known, same)
                found.append(undo_right(sign, reduced, other) if a else undo_left(sign, reduced, other))
        done = [p for p in found if p is not None]
        return next((p for p in done if polynomials.as_expression(p) is not None), done[0] if done else None)

    def _explained_by_equality(self, compared: Iterable[tuple[Comparison, str]]) -> list[tuple[Comparison, str]]:
        """Takes what is asked to be equal, and is, for the same size; gives all comparisons."""
        given = list(compared)
        waiting = [item for item in given if item[0].equal]
        progress = True
        while progress:
            left = [item for item in waiting if not self._explain_equality(*item)]
            progress, waiting = len(left) < len(waiting), left
        return given

    def _explain_equality(self, comparison: Comparison, where: str) -> bool:
        a, b = (self._value(origin, certain=True) for origin in (comparison.left, comparison.right))
        unknown, size = (comparison.left, b) if a is None else (comparison.right, a)
        if size is None or not polynomials.axes_in(size) or (a is not None and b is not None):
            return False
        if comparison.sign not in ("eq", "ne"):  # `self.size < self.capacity`: with one of them it would turn out so
            least = polynomials.add(polynomials.constant(polynomials.evaluate(size, self.axes)), size, -1)
            if stays(comparison.sign, least if a is None else polynomials.multiply(least, polynomials.constant(-1)), 0):
                return False
        return self._explain(unknown, size, where, True)

    def _compared(self, comparison: Comparison, where: str) -> None:
        """What was compared must compare so at all larger sizes."""
        fixed = self._locked(self._axes_of(comparison.left) | self._axes_of(comparison.right))
        sides = [self._values(origin, False, fixed) for origin in (comparison.left, comparison.right)]
        if not all(sides):
            self._number(self._axes_of(comparison.left) | self._axes_of(comparison.right), where)
            return
        # one attribute that is the size of several axes is that of all of them after a growth too
        differences = [polynomials.add(a, b, -1) for a, b in islice(product(*sides), _MOST_VALUES)]
        difference, now = differences[0], polynomials.evaluate(differences[0], self.axes)
        if any(stays(comparison.sign, one, now) for one in differences):
            return
        left, right = sides[0][0], sides[1][0]
        found = bounded(comparison.sign, difference, now)
        if found:
            serial, kind = found
            self._note(serial, kind, where)
        elif comparison.sign not in ("eq", "ne"):
            self._number(polynomials.axes_in(difference), where)
        elif now == 0:
            self._equal([left, right], where)
        elif not (polynomials.axes_in(left) and polynomials.axes_in(right)):
            self._number(polynomials.axes_in(difference), where)

    def _number(self, serials: Iterable[int], where: str) -> None:
        for serial in serials:
            self._note(serial, "size_as_number", where)

    def _note(self, serial: int, kind: str, where: str) -> None:
        self.axes.shared(self.axes.nodes[serial]).passages[Passage(kind, where)] = None

    def _value(self, origin: Origin, certain: bool) -> Polynomial | None:
        return next(iter(self._values(origin, certain)), None)

    def _locked(self, serials: Iterable[int]) -> dict[int, Polynomial]:
        """The sizes of axes that never grow, by serial number."""
        nodes = {serial: self.axes.nodes[serial] for serial in serials}
        return {s: polynomials.constant(node.size) for s, node in nodes.items() if self.axes.shared(node).locks}

    def _values(self, origin: Origin, certain: bool, fixed: Mapping[int, Polynomial] = _NONE) -> list[Polynomial]:
        """What an int is, with the sizes of `fixed` axes as numbers; several sizes if it is those of several axes.

        Empty if that is not known yet.
        """
        match origin:
            case Literal(value):
                return [polynomials.constant(value)]
            case SizeOf(dim):
                return [polynomials.substitute(polynomials.size_of(self.axes, dim), fixed)]
            case Attribute():
                # An int that is the size of nothing, such as an expansion factor: it stays as it is.
                unknown = [] if certain else [polynomials.constant(self.values[origin])]
                return [polynomials.substitute(p, fixed) for p in self.known.get(origin, unknown)]
            case Computed(sign, left, right):
                operands = product(self._values(left, certain, fixed), self._values(right, certain, fixed))
                results = (computed(sign, a, b) for a, b in operands)
                return [p for p in islice(results, _MOST_VALUES) if p is not None]

    def _equal(self, sizes: list[Polynomial], where: str) -> None:
        different = [size for i, size in enumerate(sizes) if size not in sizes[:i]]
        serials = set().union(*map(polynomials.axes_in, sizes))
        if len(different) < 2:
            return
        if not all(map(polynomials.axes_in, different)):
            self._lock(serials, Lock(_UNKNOWN, where, KEEP))
            return
        expressions = [polynomials.as_expression(size) for size in different]
        followed = tuple(e for e in expressions if e is not None)
        values = {polynomials.evaluate(size, self.axes) for size in different}
        if len(values) == 1 and len(followed) == len(different) and all(map(self._held, serials)):
            self.equalities.append(Equality(followed, where))
        else:
            self._lock(serials, Lock("its size follows from others in a way that cannot be kept", where, DECLARE))

    def _axes_of(self, origin: Origin) -> set[int]:
        value = self._value(origin, certain=False)
        if value is not None and not isinstance(origin, Attribute):
            return polynomials.axes_in(value)
        match origin:
            case SizeOf(dim):
                return polynomials.axes_in(polynomials.size_of(self.axes, dim))
            case Attribute():
                return set().union(*map(polynomials.axes_in, self.known.get(origin, [])))
            case Computed(_, left, right):
                return self._axes_of(left) | self._axes_of(right)
        return set()

    def _held(self, serial: int) -> bool:
        return self.axes.named([self.axes.nodes[serial]])

    def _lock(self, serials: Iterable[int], lock: Lock) -> None:
        self.axes.lock([self.axes.nodes[serial] for serial in serials], lock)


def also_of_others(path: str) -> Lock:
    """The lock of an axis whose size, kept by a module, the run takes for another size as well."""
    return Lock(f"its size {path} is also the size of something that no parameter holds", path, OTHERS)


def attributes_in(origin: Origin) -> list[Attribute]:
    """The attributes that an int was computed from."""
    match origin:
        case Attribute():
            return [origin]
        case Computed(_, left, right):
            return attributes_in(left) + attributes_in(right)
    return []
