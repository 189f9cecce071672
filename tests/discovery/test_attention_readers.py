"""The size by whose root scores are divided, which nobody writes down."""

import torch
from torch import nn

from growkit.discovery.attention_readers import temperature
from growkit.discovery.trace import Tracer
from growkit.discovery.uses import Run, Uses
from growkit.nn.contents import Contents


def _sizes(name: str, *args: object, **kwargs: object) -> list[int]:
    return [size for size, _ in temperature(Run(Tracer(Contents(nn.Linear(2, 2))), Uses()), name, args, kwargs)]


def test_attention_divides_by_the_width_of_queries_unless_it_has_a_scale() -> None:
    query = torch.zeros(2, 3, 5, 7)
    assert _sizes("scaled_dot_product_attention", query, query, query) == [7]
    assert _sizes("scaled_dot_product_attention", query, query, query, scale=0.5) == []
    assert _sizes("scaled_dot_product_attention", query, query, query, None, 0.0, False, 0.5) == []


def test_torch_attention_divides_by_the_width_of_a_head() -> None:
    assert _sizes("multi_head_attention_forward", None, None, None, 12, 3) == [4]
