"""Heads grow whole; what queries and keys are contracted over does not grow."""

import torch

from growkit.constraints.attention import CONSTRAINTS
from tests.constraints.maps import UNSCALED, admitted


def test_what_is_admitted() -> None:
    assert {kind: admitted(constraint) for kind, constraint in CONSTRAINTS.items()} == {
        "per_head": UNSCALED,
        "contracted_queries": {"x2", "fresh", "fresh first", "scaled alike"},
        "contracted_part": {"fresh", "fresh first"},
        "contracted_activations": set(),
        "contracted_alike": set(),
        "contracted_tempered": set(),
        "softmax": set(),
        "size_as_number": set(),
    }


def test_silent_queries_leave_scores_as_they_are() -> None:
    q, k = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    assert torch.cat([q, torch.zeros(1)]) @ torch.cat([k, torch.tensor([7.0])]) == q @ k


def test_why() -> None:
    """Copies count twice in q . k, and a new entry takes its share of a softmax."""
    q, k = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    assert torch.cat([q, q]) @ torch.cat([k, k]) == 2 * (q @ k)
    assert torch.softmax(torch.tensor([1.0, 2.0, 0.0]), 0)[0] < torch.softmax(torch.tensor([1.0, 2.0]), 0)[0]
