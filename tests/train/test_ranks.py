"""Several processes; what one alone has to do is nothing. Two processes: tests/end_to_end/test_ranks.py."""

import torch

from growkit.train.ranks import Ranks


def test_one_process_agrees_with_itself() -> None:
    ranks = Ranks()
    assert (ranks.count, ranks.own, ranks.gather("here", "a")) == (1, 0, ["a"])
    ranks.agree("anywhere", "anything")
    tensor = torch.ones(2)
    ranks.broadcast([tensor])
    assert torch.equal(tensor, torch.ones(2))
