"""When a run is saved, what is kept, and what can be gone on from."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from growkit.errors import CheckpointError, EngineError
from growkit.train import Settings


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def test_steps_epochs_and_the_end_are_saved_and_the_newest_kept(make_engine: Any, tmp_path: Path) -> None:
    engine = make_engine(run_dir=tmp_path, settings=Settings(checkpoint_every=2, keep_last=None))
    engine.fit(max_steps=7)
    assert names(tmp_path) == [f"step-{step:08d}" for step in (2, 4, 6, 7)]
    by_epoch = make_engine(run_dir=tmp_path / "other", settings=Settings(checkpoint_every_epochs=1, keep_last=2))
    by_epoch.fit(3)
    assert names(tmp_path / "other") == ["step-00000010", "step-00000015"]


def test_the_best_are_kept_too(make_engine: Any, tmp_path: Path) -> None:
    losses = iter([3.0, 1.0, 2.0, 4.0])
    engine = make_engine(
        run_dir=tmp_path,
        eval_step=lambda model, batch: next(losses),
        eval_data=[0],
        settings=Settings(evaluate_every=1, checkpoint_every_epochs=1, keep_last=1, keep_best=1, best_metric="loss"),
    )
    engine.fit(4)
    assert names(tmp_path) == ["step-00000010", "step-00000020"]


def test_a_run_goes_on_from_its_newest_checkpoint(make_engine: Any, tmp_path: Path) -> None:
    def make() -> Any:
        return make_engine(run_dir=tmp_path, settings=Settings(checkpoint_every=3, log_every=2))

    make().fit(max_steps=4, resume="auto")
    resumed, whole = make(), make_engine(settings=Settings(log_every=2))
    resumed.fit(2, resume="auto")
    whole.fit(2)
    for one, other in zip(resumed.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert resumed.progress == whole.progress
    with pytest.raises(EngineError, match="resume of an Engine that has trained"):
        resumed.fit(3, resume="auto")


@pytest.mark.report("R135")
@pytest.mark.report("R148")
def test_a_checkpoint_comes_after_the_hooks_of_its_step(make_engine: Any, tmp_path: Path) -> None:
    calls: list[Any] = []

    class Watch:
        def on_train_step_end(self, step):
            calls.append(step)

        def on_checkpoint(self, path):
            calls.append(path.name)

        def train_step_callback(self, step):
            calls.append(f"before {step}")

    make_engine(run_dir=tmp_path, callbacks=[Watch()], settings=Settings(checkpoint_every=1)).fit(max_steps=1)
    assert calls == ["before 0", 0, "step-00000001", "step-00000001"]


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)])
def test_a_signal_saves_and_stops(make_engine: Any, loss_of: Any, tmp_path: Path, number: int, raised: type) -> None:
    def train_step(model, batch, step):
        if step == 2 and not (tmp_path / "checkpoints").exists():
            os.kill(os.getpid(), number)
        return loss_of(model, batch)

    def make() -> Any:
        return make_engine(run_dir=tmp_path, train_step=train_step, settings=Settings(accumulate_steps=2))

    with pytest.raises(raised):
        make().fit(2)
    assert names(tmp_path) == ["step-00000003"]
    resumed, whole = make(), make()
    resumed.fit(2, resume="auto")
    whole.fit(2)
    for one, other in zip(resumed.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_state_of_callbacks_and_of_the_users_objects_goes_along(make_engine: Any, tmp_path: Path) -> None:
    class Counter:
        def __init__(self) -> None:
            self.count = 0

        def on_train_step_end(self):
            self.count += 1

        def state_dict(self):
            return {"count": self.count}

        def load_state_dict(self, state):
            self.count = state["count"]

    first, named = Counter(), Counter()
    named.count = 7
    settings = Settings(checkpoint_every=2)
    make_engine(run_dir=tmp_path, callbacks=[first], stateful={"mine": named}, settings=settings).fit(max_steps=2)
    later, other = Counter(), Counter()
    engine = make_engine(run_dir=tmp_path, callbacks=[later], stateful={"mine": other}, settings=settings)
    engine.fit(max_steps=3, resume="auto")
    assert (later.count, other.count) == (3, 7)
    with pytest.raises(EngineError, match="stateful={'mine': list}"):
        make_engine(stateful={"mine": []})


def test_get_model_makes_the_structure_as_saved(make_net: Any, make_engine: Any, tmp_path: Path) -> None:
    asked = []

    def get_model(epoch, step):
        asked.append((epoch, step))
        return make_net(width=5 if step == 0 else 9)

    def wide(epoch, step):
        return make_net(width=9)

    settings = Settings(checkpoint_every=3)
    make_engine(model=wide, run_dir=tmp_path, settings=settings).fit(max_steps=3)
    engine = make_engine(model=get_model, run_dir=tmp_path, settings=settings)
    engine.fit(max_steps=4, resume="auto")
    assert asked == [(1, 0), (1, 3)]
    assert engine.model[0].weight.shape == (9, 3)


@pytest.mark.report("R124")
def test_another_structure_is_refused_with_what_differs(make_net: Any, make_engine: Any, tmp_path: Path) -> None:
    settings = Settings(checkpoint_every=3)
    make_engine(run_dir=tmp_path, settings=settings).fit(max_steps=3)
    with pytest.raises(EngineError, match=r"0\.weight is \(7, 3\), was \(5, 3\)"):
        make_engine(model=make_net(width=7), run_dir=tmp_path, settings=settings).fit(1, resume="auto")


@pytest.mark.report("R129")
def test_names_with_another_prefix_are_refused(make_net: Any, make_engine: Any, tmp_path: Path) -> None:
    settings = Settings(checkpoint_every=3)
    make_engine(run_dir=tmp_path, settings=settings).fit(max_steps=3)
    prefixed = torch.nn.Sequential(make_net())
    before = [parameter.clone() for parameter in prefixed.parameters()]
    with pytest.raises(EngineError, match=r"0\.weight is missing; .*0\.0\.weight is new"):
        make_engine(model=prefixed, run_dir=tmp_path, settings=settings).fit(1, resume="auto")
    assert all(torch.equal(a, b) for a, b in zip(prefixed.parameters(), before, strict=True))


@pytest.mark.parametrize(("epochs", "persistent", "told"), [(1, True, 1), (1, False, 0), (0, True, 0)])
def test_random_numbers_of_lasting_workers_are_told_of(
    make_engine: Any, tmp_path: Path, epochs: int, persistent: bool, told: int
) -> None:
    """In the epoch in which the workers are started they are as they were."""

    def make() -> Any:
        data = DataLoader(TensorDataset(torch.ones(4, 3).double()), 2, num_workers=1, persistent_workers=persistent)
        return make_engine(train_data=data, train_step=lambda model, batch: model(batch[0]).mean(), run_dir=tmp_path)

    first, second = make(), make()
    first.fit(epochs)
    first.save_checkpoint()
    messages: list[str] = []
    second._state.display.message = messages.append
    second.fit(0, resume="auto")
    assert sum("what the workers draw at random is not as" in message for message in messages) == told


@pytest.mark.report("R134")
def test_steps_that_the_user_takes_count_as_batches_and_are_saved(
    make_net: Any, make_engine: Any, loss_of: Any, tmp_path: Path
) -> None:
    model = make_net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)

    def train_step(model, batch, flow):
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        optimizer.step()
        return {"loss": loss}

    engine = make_engine(
        model=model,
        optimizers=optimizer,
        train_step=train_step,
        run_dir=tmp_path,
        settings=Settings(checkpoint_every=2, keep_last=None),
    )
    engine.fit(max_steps=4)
    assert names(tmp_path) == ["step-00000002", "step-00000004"]
    assert (engine.progress.step, engine.progress.updates) == (4, 0)


def test_a_run_without_a_checkpoint_begins_its_rows_anew(make_engine: Any, tmp_path: Path) -> None:
    for _ in range(2):
        engine = make_engine(run_dir=tmp_path, settings=Settings(log_every=1))
        engine.fit(max_steps=2, resume="auto")
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == len(engine.history) == 2


def test_a_run_whose_checkpoints_are_all_damaged_does_not_begin_anew(make_engine: Any, tmp_path: Path) -> None:
    settings = Settings(checkpoint_every=1, log_every=1)
    make_engine(run_dir=tmp_path, settings=settings).fit(max_steps=2)
    rows = (tmp_path / "metrics.jsonl").read_bytes()
    manifests = sorted((tmp_path / "checkpoints").rglob("*.json"))
    assert manifests
    for manifest in manifests:
        manifest.write_text(manifest.read_text()[:-20])
    with pytest.raises(CheckpointError, match=r"none of whose checkpoints is whole: step-\d+: .* is no JSON"):
        make_engine(run_dir=tmp_path, settings=settings).fit(max_steps=3, resume="auto")
    assert (tmp_path / "metrics.jsonl").read_bytes() == rows


def test_places_that_hold_nothing(make_engine: Any, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="checkpoints without a run_dir"):
        make_engine(settings=Settings(checkpoint_every=1))
    with pytest.raises(EngineError, match="resume='auto' without a run_dir"):
        make_engine().fit(1, resume="auto")
    with pytest.raises(EngineError, match="which is no folder"):
        make_engine().fit(1, resume=tmp_path / "none")
    with pytest.raises(CheckpointError):
        make_engine().fit(1, resume=tmp_path)


def test_rows_behind_an_older_checkpoint_are_taken_away(make_engine: Any, tmp_path: Path) -> None:
    settings = Settings(checkpoint_every=2, log_every=1, evaluate_every=1)
    given = {"eval_step": lambda model, batch: 1.0, "eval_data": [0], "run_dir": tmp_path, "settings": settings}
    make_engine(**given).fit(2)
    engine = make_engine(**given)
    engine.fit(max_steps=4, resume=tmp_path / "checkpoints" / "step-00000008")
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(row["step"], "eval_loss" in row) for row in rows] == [
        *((step, False) for step in range(1, 6)), (5, True), *((step, False) for step in range(6, 9)),
    ]  # fmt: skip
    assert (len(engine.history), len(engine.evaluations)) == (8, 1)
