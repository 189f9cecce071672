"""Layout text to expressions and back.

Dims are separated by spaces. `(a b)` is a product, `[a|b]` a concatenation, a bare number a fixed
size. A role follows a colon and holds for everything before it in that dim or factor:

    "(heads head_dim):produces stream:consumes"
    "[value|gate]:produces stream:consumes 1"
    "layers.0.fc1.weight[0]:produces"          # axis names may end in [n] and .n
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from growkit.axes.expressions import Concat, Expression, Fixed, Leaf, Product, Role, leaves
from growkit.errors import PatternError

_NAME = re.compile(r"[\w.\-]*[A-Za-z_.\-][\w.\-]*(\[\d+\](\.\d+)*)?|\d+(\.\d+)*\[\d+\](\.\d+)*")
_NUMBER = re.compile(r"\d+")
_ROLES = {role.value: role for role in Role}


def parse(text: str) -> tuple[Expression, ...]:
    """The dims that a layout text describes.

    Raises:
        PatternError: with the place where reading stopped.
    """
    reader = _Reader(text)
    dims = []
    while reader.skip_spaces():
        dims.append(reader.expression())
    return tuple(dims)


def show(dims: Sequence[Expression]) -> str:
    """The text of a layout: the inverse of `parse`."""
    return " ".join(_show(dim) for dim in dims)


class _Reader:
    """Recursive descent over one text."""

    def __init__(self, text: str):
        self.text, self.at = text, 0

    def skip_spaces(self) -> bool:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        return self.at < len(self.text)

    def fail(self, expected: str) -> PatternError:
        pointer = " " * self.at + "^"
        return PatternError(
            f"layout {self.text!r} cannot be read at position {self.at}:\n    {self.text}\n    {pointer}",
            f"{expected} here; dims are names, numbers, (a b), [a|b], each with an optional :role",
            f"mend the text; roles are {', '.join(_ROLES)}",
        )

    def expression(self) -> Expression:
        start = self.at
        if self.take("("):
            children = self.children(")", "")
            role = self.role()
            built: Expression = Product(tuple(children)) if len(children) != 1 else children[0]
        elif self.take("["):
            children = self.children("]", "|")
            role = self.role()
            built = Concat(tuple(children))
        else:
            name = _NAME.match(self.text, self.at)
            number = _NUMBER.match(self.text, self.at)
            if name and (not number or name.end() > number.end()):
                self.at = name.end()
                return Leaf(name.group(), self.role())
            if number:
                self.at = number.end()
                self.role()
                return Fixed(int(number.group()))
            raise self.fail("a name, a number, '(' or '['")
        if self.at == start + 2:
            self.at = start
            raise self.fail("at least one axis between the brackets")
        return _with_role(built, role) if role else built

    def children(self, close: str, separator: str) -> list[Expression]:
        found: list[Expression] = []
        while True:
            if not self.skip_spaces():
                raise self.fail(f"{close!r}")
            if self.take(close):
                return found
            if separator and found and not self.take(separator):
                raise self.fail(f"{separator!r} or {close!r}")
            self.skip_spaces()
            found.append(self.expression())

    def take(self, character: str) -> bool:
        if self.text.startswith(character, self.at):
            self.at += 1
            return True
        return False

    def role(self) -> Role | None:
        if not self.take(":"):
            return None
        word = re.compile(r"\w*").match(self.text, self.at)
        assert word is not None
        if word.group() not in _ROLES:
            raise self.fail("a role")
        self.at = word.end()
        return _ROLES[word.group()]


def _with_role(expression: Expression, role: Role) -> Expression:
    """Gives `role` to each leaf that has none of its own."""
    match expression:
        case Leaf(axis, own):
            return Leaf(axis, own or role)
        case Product(factors):
            return Product(tuple(_with_role(f, role) for f in factors))
        case Concat(parts):
            return Concat(tuple(_with_role(p, role) for p in parts))
    return expression


def _show(expression: Expression) -> str:
    roles = {leaf.role for leaf in leaves(expression)}
    shared = roles.pop() if len(roles) == 1 else None
    return _body(expression, with_roles=shared is None) + (f":{shared.value}" if shared else "")


def _body(expression: Expression, with_roles: bool) -> str:
    match expression:
        case Leaf(axis, role):
            return axis + (f":{role.value}" if with_roles and role else "")
        case Fixed(number):
            return str(number)
        case Product(factors):
            return "(" + " ".join(_body(f, with_roles) for f in factors) + ")"
        case Concat(parts):
            return "[" + "|".join(_body(p, with_roles) for p in parts) + "]"
