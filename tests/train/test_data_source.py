"""Iterables and factories; batch size, data and keys of the users, changed while an engine trains."""

import io
from functools import partial
from itertools import chain
from typing import Any

import pytest
import torch
from rich.console import Console
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from growkit.errors import EngineError, SettingsError
from growkit.train import Settings, StepCallbackReturn
from growkit.train.data_source import DataSource, batch_count


def test_an_iterable_is_given_as_it_is() -> None:
    batches = [1, 2]
    assert DataSource(batches).batches(epoch=3, batch_size=None) is batches
    assert not DataSource(batches).goes_on


def test_a_factory_gets_what_it_names() -> None:
    def everything(*, epoch, batch_size, start):
        return [epoch, batch_size, start]

    assert DataSource(everything).batches(epoch=1, batch_size=2, start=3) == [1, 2, 3]
    assert DataSource(lambda batch_size=8: [batch_size]).batches(epoch=1, batch_size=None) == [8]
    assert DataSource(lambda **given: given).batches(epoch=1, batch_size=2) == {"epoch": 1, "batch_size": 2, "start": 0}


def test_only_a_factory_that_names_start_goes_on_inside_an_epoch() -> None:
    assert DataSource(lambda start: [start]).goes_on
    assert not DataSource(lambda **given: [given]).goes_on
    assert not DataSource(lambda epoch: [epoch]).goes_on


def test_what_gives_no_batches_is_refused() -> None:
    with pytest.raises(EngineError, match="train_data is a int"):
        DataSource(5)  # type: ignore[arg-type]
    with pytest.raises(EngineError, match="eval_data returned NoneType"):
        DataSource(lambda: None, "eval_data").batches(epoch=1, batch_size=None)


def test_a_batch_size_is_set_where_it_is_taken_and_only_there() -> None:
    DataSource([1]).check_batch_size(None)
    DataSource(lambda batch_size: [1]).check_batch_size(3)
    DataSource(lambda batch_size=2: [1]).check_batch_size(None)
    DataSource([1]).check_batch_size(3, needless=True)
    with pytest.raises(SettingsError, match="batch_size=3 for train_data that does not take it"):
        DataSource([1]).check_batch_size(3)
    with pytest.raises(SettingsError, match="no batch_size, and eval_data asks for it"):
        DataSource(lambda batch_size: [1], "eval_data").check_batch_size(None, needless=True)


def test_the_number_of_batches_where_it_is_known() -> None:
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(3))

    assert batch_count([1, 2]) == 2
    assert batch_count(DataLoader([1, 2, 3], batch_size=2)) == 2
    assert batch_count(DataLoader(Stream(), batch_size=2)) is None
    assert batch_count(iter([1])) is None


class Samples:
    """A factory of batches of 22 numbered samples in an order of the epoch, and what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int, int]] = []

    def __call__(self, *, epoch, batch_size, start):
        self.asked.append((epoch, batch_size, start))
        order = torch.randperm(22, generator=torch.Generator().manual_seed(epoch)).tolist()
        return DataLoader(order[start:], batch_size=batch_size)


def record_into(seen: list[tuple[int, list[int]]]) -> Any:
    """A train step that writes down the epoch and the samples of each batch."""

    def train_step(model, batch, epoch):
        seen.append((epoch, batch.tolist()))
        return model(batch.double()[:, None].expand(-1, 3)).square().mean()

    return train_step


def at(step: int, **updates: Any) -> Any:
    """A callback that asks for config updates at one step."""
    return lambda **now: StepCallbackReturn(config_updates=updates) if now["step"] == step else None


@pytest.mark.report("R137")
@pytest.mark.parametrize(("accumulate", "sizes"), [(1, [4, 4, 4, 6, 4]), (2, [4, 4, 4, 6, 4]), (3, [4, 4, 4, 4, 6])])
def test_an_update_of_batch_size_acts_on_the_next_batch_that_is_fetched(
    make_engine: Any, accumulate: int, sizes: list[int]
) -> None:
    """Asked for at the first window start from step 2 on; the batch that is ready there runs as it is."""
    seen: list[tuple[int, list[int]]] = []

    def callback(step):
        return StepCallbackReturn(config_updates={"batch_size": 6}) if step >= 2 else None

    engine = make_engine(
        train_step=record_into(seen),
        train_data=Samples(),
        callbacks=[callback],
        settings=Settings(batch_size=4, accumulate_steps=accumulate),
    )
    engine.fit(2)
    first = [samples for epoch, samples in seen if epoch == 1]
    assert [len(samples) for samples in first] == sizes
    assert [len(samples) for epoch, samples in seen if epoch == 2] == [6, 6, 6, 4]
    assert sorted(chain(*first)) == list(range(22))


@pytest.mark.report("R138")
def test_a_loader_is_made_once_for_each_that_is_needed(make_engine: Any) -> None:
    data = Samples()
    engine = make_engine(
        train_step=record_into([]),
        train_data=data,
        callbacks=[at(1, batch_size=5), at(1, batch_size=6), at(2, batch_size=6)],
        epoch_callbacks=[lambda epoch: StepCallbackReturn(config_updates={"batch_size": 11}) if epoch == 2 else None],
        settings=Settings(batch_size=4),
    )
    assert data.asked == []
    for max_steps in (1, 3, 99):
        engine.fit(epochs=2, max_steps=max_steps)
    # Step 0 and 1 run with 4 samples, the rest of epoch 1 with 6, epoch 2 with 11 from its first batch on.
    assert data.asked == [(1, 4, 0), (1, 6, 8), (2, 11, 0)]


@pytest.mark.report("R126")
@pytest.mark.report("R138")
@pytest.mark.report("R143")
@pytest.mark.parametrize("stop", [2, 4, 5, 6])
def test_a_resumed_epoch_goes_on_with_the_samples_that_are_left(make_engine: Any, stop: int) -> None:
    """Accumulation over 2, a new batch size at step 2; the place is stored in batches and samples, not derived."""
    seen: list[tuple[int, list[int]]] = []
    data = Samples()
    given = {
        "train_step": record_into(seen),
        "train_data": data,
        "callbacks": [at(2, batch_size=3)],
        "settings": Settings(batch_size=4, accumulate_steps=2),
    }
    first = make_engine(**given)
    first.fit(max_steps=stop)
    done, asked = len(seen), len(data.asked)
    second = make_engine(**given | {"settings": first.settings})
    second._loop.load_state_dict(first._loop.state_dict())
    second.fit(1)
    assert done == stop
    assert sorted(chain(*(samples for _, samples in seen))) == list(range(22))
    assert len(data.asked) == asked + (2 if stop == 2 else 1)


def test_a_factory_without_start_gets_the_batch_size_in_the_next_epoch_and_a_line_says_so(
    make_engine: Any, batches: Any
) -> None:
    asked, output = [], io.StringIO()

    def train_data(epoch, batch_size):
        asked.append((epoch, batch_size))
        return batches

    engine = make_engine(
        train_data=train_data,
        callbacks=[at(2, batch_size=8), at(3, log_every=9)],
        settings=Settings(batch_size=4),
        console=Console(file=output),
    )
    engine.fit(2)
    assert asked == [(1, 4), (2, 8)]
    assert output.getvalue().count("batch_size") == 1
    assert "step 2: batch_size=8 from epoch 2 on: train_data names no `start`\n" in output.getvalue()


@pytest.mark.report("R137")
def test_other_data_from_a_step_callback_and_from_an_epoch_callback(make_engine: Any) -> None:
    seen: list[tuple[int, list[int]]] = []
    short, long, last = ([torch.tensor([n]) for n in numbers] for numbers in ((0, 1, 2, 3), (10, 11), (20,)))

    def at_step(step):  # asked again at every step: the same object changes nothing
        return StepCallbackReturn(config_updates={"train_data": long}) if 1 <= step < 5 else None

    def at_epoch(epoch):
        return StepCallbackReturn(config_updates={"train_data": last}) if epoch == 3 else None

    make_engine(train_step=record_into(seen), train_data=short, callbacks=[at_step], epoch_callbacks=[at_epoch]).fit(3)
    assert seen == [(1, [0]), (1, [1]), (1, [10]), (1, [11]), (2, [10]), (2, [11]), (3, [20])]


@pytest.mark.report("R137")
def test_data_with_longer_sequences_goes_on_with_the_samples_that_are_left(make_engine: Any) -> None:
    """The length is raised when the loss falls below a bound, inside an epoch."""
    seen = []

    def data(*, batch_size, start, length):
        rows = torch.arange(12.0, dtype=torch.float64)[:, None].expand(-1, length)
        return DataLoader(rows[start:], batch_size=batch_size)

    def train_step(model, batch, step):
        seen.append((batch[:, 0].tolist(), batch.shape[1]))
        return model[2].bias.sum() * 0 + (1.0 if step == 0 else 0.1)

    def callback(metrics, config):
        if metrics.last.get("loss", 9.0) < 0.5 and config.user["length"] == 2:
            updates = {"train_data": partial(data, length=8), "length": 8}
            return StepCallbackReturn(config_updates=updates)

    make_engine(
        train_step=train_step,
        train_data=partial(data, length=2),
        callbacks=[callback],
        settings=Settings(batch_size=3, user={"length": 2}),
    ).fit(1)
    assert seen == [([0, 1, 2], 2), ([3, 4, 5], 2), ([6, 7, 8], 2), ([9, 10, 11], 8)]


def test_keys_of_the_users_reach_callbacks_and_train_steps(make_engine: Any, loss_of: Any) -> None:
    seen = []

    def train_step(model, batch, config):
        seen.append(("train_step", config.user["stage"]))
        return loss_of(model, batch)

    def at_epoch(epoch):
        return StepCallbackReturn(config_updates={"stage": f"epoch {epoch}"})

    make_engine(
        train_step=train_step,
        callbacks=[at(1, stage="late"), lambda config: seen.append(("callback", config.user["stage"]))],
        epoch_callbacks=[at_epoch],
        settings=Settings(user={"stage": "start"}),
    ).fit(max_steps=2)
    assert seen == [(who, stage) for stage in ("epoch 1", "late") for who in ("callback", "train_step")]


class Tagged(IterableDataset):
    """Samples that carry their epoch and the worker that read them."""

    def __init__(self, epoch: int):
        self.epoch = epoch

    def __iter__(self):
        worker = get_worker_info().id
        return iter([100 * self.epoch + 10 * worker + n for n in range(2)])


@pytest.mark.report("R159")
def test_workers_of_a_factorys_loader_know_the_epoch(make_engine: Any) -> None:
    seen: list[tuple[int, list[int]]] = []

    def data(epoch):
        return DataLoader(Tagged(epoch), batch_size=2, num_workers=2)

    make_engine(train_step=record_into(seen), train_data=data).fit(2)
    assert seen == [(1, [100, 101]), (1, [110, 111]), (2, [200, 201]), (2, [210, 211])]
