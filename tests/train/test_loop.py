"""The protocol of loops."""

import pytest

from growkit.train.loop import only_outcome
from growkit.train.outcome import Outcome


def test_a_flow_gives_exactly_one_outcome() -> None:
    outcome = Outcome()
    assert only_outcome(iter([outcome])) is outcome
    for wrong in ([], [outcome, outcome]):
        with pytest.raises(ValueError, match="values to unpack"):
            only_outcome(iter(wrong))
