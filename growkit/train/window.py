"""The place of a unit of work in its accumulation window."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch


@dataclass(frozen=True, slots=True)
class Window:
    """Handed down from loop to loop, so that nobody has to ask upwards whether gradients accumulate."""

    first: bool = True
    """The unit opens the window: gradients are cleared before it."""
    last: bool = True
    """The unit closes the window: the optimizer steps after it."""
    length: int = 1
    """Batches in this window; fewer than `accumulate_steps` at the end of an epoch."""
    share: float = 1.0
    """What part of its batch the unit is: its length over the batch's."""

    def scaled(self, loss: torch.Tensor) -> torch.Tensor:
        """The unit's mean loss as its part of the window's mean loss."""
        part = loss if self.share == 1.0 else loss * self.share
        return part if self.length == 1 else part / self.length

    def of_split(self, share: float, *, first: bool, last: bool) -> Window:
        """The place of one split of the batch whose place this is."""
        return replace(self, first=self.first and first, last=self.last and last, share=self.share * share)
