"""States of loaders, samplers and generators."""

from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

from growkit.errors import EngineError
from growkit.train.loader_state import keeps_state, loader_state, restore_loader_state


class Counter:
    """Counts what it is asked for; keeps state."""

    def __init__(self) -> None:
        self.count = 0

    def __iter__(self):
        while self.count < 4:
            self.count += 1
            yield self.count - 1
        self.count = 0

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return index

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count}

    def load_state_dict(self, state: Any) -> None:
        self.count = state["count"]


def test_what_keeps_state_is_asked_for_it_as_a_whole() -> None:
    one, other = Counter(), Counter()
    iterator = iter(one)
    next(iterator)
    state = loader_state(one)
    assert state == {"loader": {"count": 1}}
    restore_loader_state(other, state)
    assert list(other) == [1, 2, 3]
    assert keeps_state(one)
    assert not keeps_state([1])


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda g: [1, 2], set()),
        (lambda g: DataLoader(range(9), batch_size=2), set()),
        (lambda g: DataLoader(range(9), shuffle=True, generator=g), {"generator"}),
        (
            lambda g: DataLoader(range(9), sampler=RandomSampler(range(9), generator=g)),
            {"batch_sampler.sampler.generator"},
        ),
        (
            lambda g: DataLoader(range(9), batch_sampler=BatchSampler(RandomSampler(range(9), generator=g), 2, False)),
            {"batch_sampler.sampler.generator"},
        ),
        (lambda g: DataLoader(range(4), sampler=Counter()), {"batch_sampler.sampler"}),
        (lambda g: DataLoader(range(4), batch_size=None, sampler=Counter()), {"sampler"}),
        (lambda g: DataLoader(Counter(), batch_size=2), {"dataset"}),
    ],
)
def test_the_parts_of_a_loader_that_have_a_state(make: Any, names: set[str]) -> None:
    one, other = (make(torch.Generator().manual_seed(seed)) for seed in (1, 2))
    state = loader_state(one)
    assert set(state) == names
    if any("generator" in name for name in names):
        list(one)
    restore_loader_state(other, state)
    restore_loader_state(one, state)
    assert [str(batch) for batch in one] == [str(batch) for batch in other]


def test_other_data_than_the_state_is_of_is_refused() -> None:
    state = loader_state(DataLoader(range(9), shuffle=True, generator=torch.Generator()))
    with pytest.raises(EngineError, match="states of nothing, and one to go on from with those of generator"):
        restore_loader_state(DataLoader(range(9)), state)
