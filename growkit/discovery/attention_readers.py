"""Ints that functions of attention are given, and the size by which they divide their scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from growkit.axes.node import Dim, Join
from growkit.discovery.taint import SizeInt, as_int, plain
from growkit.discovery.uses import Pairs, Run


def temperature(run: Run, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[tuple[int, Dim | None]]:
    """The size by whose root the scores of an attention function are divided, unless it is given a scale.

    None for the dim: that of the queries which the function makes itself.
    """
    if name == "multi_head_attention_forward":
        yield plain(as_int(args[3])) // plain(as_int(args[4])), None
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
    parts = None if packed is None else run.tracer.axes.parts(run.dims(packed)[0][0])
    if parts is not None and parts.join is Join.CONCAT:
        projected += [[part] for part in parts.nodes if part.size == plain(width)]
    run.uses.equal.append(([stream, inner, *projected], run.tracer.where("multi_head_attention")))
    return [(width, stream), (heads, run.tracer.axes.split_dim(inner, plain(heads))[0])]
