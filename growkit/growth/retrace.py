"""Is the grown model read as planned? The axes of a second trace against those of the plan."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from growkit.axes.expressions import Concat, Expression, Fixed, Leaf, Product
from growkit.axes.layouts import Layout
from growkit.axes.table import AxisTable
from growkit.errors import VerificationError
from growkit.growth.plan import Plan
from growkit.nn.contents import tensors_of

FACTORY = "pass factory=, a function of the new sizes that builds the model anew"
"""Next step for a model that computes with something of its own that a growth in place does not reach."""


class StaleReads(TorchDispatchMode):
    """Notes which tensors of a model that a growth is to replace are read inside, themselves or views of them."""

    def __init__(self, model: nn.Module, replaced: Collection[str]):
        super().__init__()
        tensors = {name: tensor for name, tensor in tensors_of(model).items() if tensor.numel() and not tensor.is_meta}
        kept = {tensor.untyped_storage().data_ptr() for name, tensor in tensors.items() if name not in replaced}
        storages = {name: tensors[name].untyped_storage() for name in replaced if name in tensors}
        # by weak references: without rollback, old tensors are freed one by one
        self._old = [
            (storage.data_ptr(), name, StorageWeakRef(storage))
            for name, storage in storages.items()
            if storage.data_ptr() not in kept
        ]
        self._addresses: dict[int, str] = {}
        self._read: dict[str, None] = {}

    def __enter__(self) -> Any:
        self._addresses = {address: name for address, name, storage in self._old if not storage.expired()}
        return super().__enter__()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for x in tree_leaves((args, kwargs)):
            if isinstance(x, Tensor) and (name := self._addresses.get(x.untyped_storage().data_ptr())):
                self._read[name] = None
        return func(*args, **(kwargs or {}))

    def check(self) -> None:
        """Passes if none of them was read.

        Raises:
            VerificationError: naming the tensor.
        """
        if self._read:
            raise VerificationError(
                f"after the growth, the model still reads the old {', '.join(list(self._read)[:3])}",
                "models that read their parameters where modules hold them, and keep no references of their own",
                f"{FACTORY}; or let the modules read self.weight each time",
            )


def check_retrace(plan: Plan, table: AxisTable, renames: Mapping[str, str], new_parameters: Iterable[str] = ()) -> None:
    """Passes if every grown or new tensor is read, at its new sizes, with the structure that the plan has.

    Raises:
        VerificationError: naming the tensor.
    """
    sizes = dict(plan.sizes) | {step.axis: step.new for step in plan.width}
    for name in new_parameters:
        if name in table.unreached:
            raise _surprise(name, "of a new block is not read by the grown model")
    names: dict[str, str] = {}
    for old_name, text in plan.layouts.items():
        name, planned = renames.get(old_name, old_name), Layout.parse(text)
        if name in table.unreached and old_name not in plan.unread:
            raise _surprise(name, "is not read by the grown model")
        found = table.layouts.get(name)
        if found is None or found.shape(table.sizes) != planned.shape(sizes):
            raise _surprise(name, f"was planned as {planned.shape(sizes)}")
        if name in table.unreached:
            continue
        if not all(_same(a, b, names) for a, b in zip(planned.dims, found.dims, strict=True)):
            raise _surprise(name, f"was planned as '{planned}' and is used as '{found}'")
    for axis, found_axis in names.items():
        if sizes[axis] != table.sizes[found_axis]:
            raise _surprise(axis, f"was planned with {sizes[axis]} units and is used with {table.sizes[found_axis]}")
    if len(set(names.values())) != len(names):
        raise _surprise("one tensor or more", "now share an axis that were apart before")


def _same(planned: Expression, found: Expression, names: dict[str, str]) -> bool:
    """Whether both have one structure, up to the names of the axes, which `names` collects."""
    match planned, found:
        case Leaf(a, role), Leaf(b, other):
            return role is other and names.setdefault(a, b) == b
        case Fixed(a), Fixed(b):
            return a == b
        case (Product(a), Product(b)) | (Concat(a), Concat(b)):
            return len(a) == len(b) and all(_same(x, y, names) for x, y in zip(a, b, strict=True))
    return False


def _surprise(name: str, what: str) -> VerificationError:
    return VerificationError(
        f"after the growth, {name} {what}",
        "the structure of the plan at the new sizes",
        f"a module keeps a reference or a number of its own: {FACTORY}; or leave this axis alone",
    )
