"""Ints that functions of attention are given, and the size by which they divide their scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from torch import Tensor

from growkit.axes.node import Dim, Irreconcilable, Join
from growkit.discovery.taint import Computed, Literal, SizeInt, SizeOf, as_int, plain
from growkit.discovery.uses import Pairs, Run, Use


def temperature(run: Run, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[tuple[int, Dim]]:
    """The size by whose root the scores of an attention function are divided, unless it is given a scale."""
    if name == "multi_head_attention_forward":
        weight, heads = kwargs.get("out_proj_weight", args[11] if len(args) > 11 else None), args[4]
        if isinstance(weight, Tensor):
            try:
                split = run.tracer.axes.split_dim(run.dims(weight)[1], plain(as_int(heads)))[1]
            except Irreconcilable:  # attention itself locks the axis
                return
            yield prod(node.size for node in split), split
    elif (args[6] if len(args) > 6 else kwargs.get("scale")) is None:
        query = args[0] if args else kwargs["query"]
        yield query.shape[-1], run.dims(query)[-1]


def attention(run: Run, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Pairs:
    """A scale that is a size is one used as a number."""
    scale = args[6] if len(args) > 6 else kwargs.get("scale")
    if isinstance(scale, SizeInt):
        run.uses.numeric.append((scale.origin, run.tracer.where("scaled_dot_product_attention")))
    return ()


def multi_head_attention(run: Run, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Pairs:
    """`nn.MultiheadAttention` splits heads inside this function, where no call is seen."""
    query, width, heads, packed = args[0], args[3], args[4], args[5]
    out_weight = args[11]
    stream, inner = run.dims(query)[-1], run.dims(out_weight)[1]
    separate = [kwargs.get(name) for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight")]
    projected = [run.dims(weight)[0] for weight in separate if weight is not None]
    run.uses.equal.append(([stream, inner, *projected], run.tracer.where("multi_head_attention")))
    split = run.tracer.axes.split_dim(inner, plain(heads))
    parts = None if packed is None else run.tracer.axes.parts(run.dims(packed)[0][0])
    if parts is not None and parts.join is Join.CONCAT:  # keys have the dims of values
        size = Computed("*", Literal(3), SizeOf(tuple(inner)))
        run.uses.sizes.append(Use(size, run.dims(packed)[0], run.tracer.where("multi_head_attention")))
    return [(width, stream), (heads, split[0])]
