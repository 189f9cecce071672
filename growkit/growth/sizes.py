"""Sizes of a grown model by name: what a factory builds it from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from growkit.axes.expressions import Leaf, leaves
from growkit.axes.layouts import Layout
from growkit.axes.names import pattern_of
from growkit.errors import NameLookupError, nearest
from growkit.growth.plan import Plan, block_path
from growkit.growth.replace import moved

_CONTAINERS = ("torch.nn.modules.container.ModuleList", "torch.nn.modules.container.Sequential")


class Sizes(Mapping[str, int]):
    """Sizes after a growth, by the names of the grown model.

    A name is one of: a tensor dim, `layers.0.fc1.weight[0]`, and where it is made of several axes and grows, each of
    them, `query.weight[0].1`; an axis or declared label of the plan; an attribute that keeps a size, `ffn_dim`, inside
    a tuple `norm.normalized_shape[0]`; the path of a container, for its number of blocks. Ends of names will do
    (`fc1.weight[0]`), and `*` and `**` as in `widen`, if all that they stand for have one size.

    Raises:
        NameLookupError: a name is unknown, or stands for several sizes. `get` gives its default for an unknown one.
    """

    def __init__(self, sizes: Mapping[str, int]):
        self._sizes = dict(sizes)

    def __getitem__(self, name: str) -> int:
        found = self._found(name)
        if not found:
            near = nearest(name, {end for known in self._sizes for end in _ends(known)}, 3)
            raise NameLookupError(
                f"the name {name!r} has no size in the grown model",
                "tensor dims such as 'fc1.weight[0]', attributes that keep a size, containers, axes that grow",
                f"did you mean {' or '.join(map(repr, near))}?" if near else "print(dict(sizes)) to see the names",
            )
        if len(set(found.values())) > 1:
            some = ", ".join(f"{known} = {size}" for known, size in list(found.items())[:6])
            raise NameLookupError(
                f"the name {name!r} stands for several sizes", f"a name of one size: {some}", "write more of the name"
            )
        return next(iter(found.values()))

    def get(self, name: str, default: int | None = None) -> int | None:  # type: ignore[override]
        """The size, or the default if nothing has this name."""
        return self[name] if self._found(name) else default

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(self._found(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._sizes)

    def __len__(self) -> int:
        return len(self._sizes)

    def __repr__(self) -> str:
        return f"Sizes({self._sizes})"

    def _found(self, name: str) -> dict[str, int]:
        if name in self._sizes:
            return {name: self._sizes[name]}
        if "*" in name:
            pattern = pattern_of(name)
            return {known: size for known, size in self._sizes.items() if pattern.fullmatch(known)}
        return {known: size for known, size in self._sizes.items() if known.endswith("." + name)}


def sizes_after(plan: Plan) -> Sizes:
    """The sizes of the model that a plan makes."""
    of_axes = {**plan.sizes, **{step.axis: step.new for step in plan.width}}
    found: dict[str, int] = {}
    for name, old in plan.fingerprint.tensors.items():
        layout = Layout.parse(plan.layouts[name]) if name in plan.layouts else None
        shape = old if layout is None else layout.shape(of_axes)
        found |= {f"{name}[{d}]": size for d, size in enumerate(shape)}
        for d, dim in enumerate(() if layout is None else layout.dims):
            parts = () if isinstance(dim, Leaf) else list(leaves(dim))
            found |= {f"{name}[{d}].{i}": of_axes[leaf.axis] for i, leaf in enumerate(parts)}
    numbers = dict(plan.fingerprint.numbers)
    for number in plan.numbers:
        numbers[number.path if number.index is None else f"{number.path}#{number.index}"] = number.new
    for depth in plan.depth:
        numbers |= {number.path: number.new for number in depth.numbers}
    for key, value in numbers.items():
        path, _, index = key.partition("#")
        found[f"{path}[{index}]" if index else path] = value
    for path, kind in plan.fingerprint.modules.items():
        if kind in _CONTAINERS and path:
            found[path] = sum(other.rpartition(".")[0] == path for other in plan.fingerprint.modules)
    labels = {axis: size for axis, size in of_axes.items() if axis not in found}
    return Sizes({**_deepened(plan, found), **labels})


def _deepened(plan: Plan, sizes: Mapping[str, int]) -> dict[str, int]:
    """The same under the names of the deeper model, with those of new blocks."""
    indices = {
        f"{block_path(step.container, block)}.{attribute}"
        for step in plan.depth
        for block in range(step.old)
        for attribute in step.indices
    }
    kept = {name: size for name, size in sizes.items() if name not in indices}
    found = {moved(name, plan.depth): size for name, size in kept.items()}
    for step in plan.depth:
        if step.container:
            found[step.container] = step.new
        for number, insertion in enumerate(step.insertions):
            source = block_path(step.container, insertion.source)
            new = block_path(step.container, insertion.position + number)
            for name in insertion.parameters(step.container, kept):
                found[new + name.removeprefix(source)] = kept[name]
    return found


def _ends(name: str) -> Iterator[str]:
    pieces = name.split(".")
    return (".".join(pieces[-count:]) for count in (1, 2, 3) if count <= len(pieces))
