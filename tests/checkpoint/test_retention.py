"""Which checkpoints stay, and which one is gone on from."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growkit.checkpoint import Description, Retention, describe, described_in, latest, save
from growkit.errors import CheckpointError

NAN = float("nan")


def saved(step: int, loss: Any) -> Description:
    return Description(Path(str(step)), "run", step, {} if loss is None else {"loss": loss}, 1, 8)


def kept(retention: Retention, losses: list[Any]) -> list[int]:
    """Steps that stay of checkpoints 0, 1, ... with these losses."""
    all_saved = [saved(step, loss) for step, loss in enumerate(losses)]
    gone = retention.expired(reversed(all_saved))
    assert [one.step for one in gone] == sorted(one.step for one in gone)
    return [one.step for one in all_saved if one not in gone]


@pytest.mark.parametrize(
    ("retention", "stay"),
    [
        (Retention(), [4, 5, 6]),
        (Retention(last=1), [6]),
        (Retention(last=None), [0, 1, 2, 3, 4, 5, 6]),
        (Retention(last=99), [0, 1, 2, 3, 4, 5, 6]),
        (Retention(last=1, best=1, metric="loss"), [3, 6]),
        (Retention(last=1, best=3, metric="loss"), [2, 3, 4, 6]),
        (Retention(last=1, best=2, metric="loss", mode="max"), [0, 5, 6]),
        (Retention(last=2, best=2, metric="accuracy"), [5, 6]),
    ],
)
def test_the_last_and_the_best_stay(retention: Retention, stay: list[int]) -> None:
    assert kept(retention, [9.0, NAN, 2.0, 1, 2.0, 8.0, None]) == stay


def test_of_equals_the_newer_one_stays() -> None:
    assert kept(Retention(last=1, best=1, metric="loss"), [1.0, 1.0, 3.0]) == [1, 2]
    assert kept(Retention(last=1, best=1, metric="loss"), [True, "x", 3.0]) == [2]


@given(
    st.lists(st.none() | st.floats(), max_size=8), st.integers(1, 4), st.integers(1, 4), st.sampled_from(["min", "max"])
)
def test_the_rule_one_save_after_the_other_keeps_what_it_keeps_at_once(
    losses: list[Any], last: int, best: int, mode: str
) -> None:
    retention = Retention(last=last, best=best, metric="loss", mode=mode)
    there: list[Description] = []
    for step, loss in enumerate(losses):
        there.append(saved(step, loss))
        gone = retention.expired(there)
        assert there[-1] not in gone
        there = [one for one in there if one not in gone]
    assert [one.step for one in there] == kept(retention, losses)
    assert len(there) <= last + best


@pytest.mark.parametrize(
    "wrong",
    [{"last": 0}, {"last": True}, {"best": -1}, {"best": 1}, {"metric": "loss"}, {"mode": "least"}, {"last": 1.5}],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError, match="Retention"):
        Retention(**wrong)


@pytest.mark.report("R117")
def test_the_latest_is_the_newest_that_is_whole_and_the_others_are_named(tmp_path: Path) -> None:
    for step in (9, 100, 20, 30):
        save(tmp_path / f"step-{step}", {"step": step}, kind="run", step=step)
    save(tmp_path / "model", {}, kind="model", step=200)
    (tmp_path / "half").mkdir()
    (tmp_path / ".step-40.01234567.saving").mkdir()
    (tmp_path / "metrics.jsonl").write_text("")
    (tmp_path / "step-30" / "manifest.json").write_text("{")
    text = (tmp_path / "step-100" / "manifest.json").read_text()
    (tmp_path / "step-100" / "manifest.json").write_text(text.replace('"step":100', '"step":101'))
    found = latest(tmp_path, kind="run")
    assert found.found == describe(tmp_path / "step-20")
    skipped = {path.name: reason for path, reason in found.skipped}
    assert skipped.pop(".step-40.01234567.saving") == "a save or a deletion that was cut off"
    assert skipped.pop("model") == "a checkpoint of 'model'"
    assert "has no manifest.json" in skipped.pop("half")
    assert "is no JSON" in skipped.pop("step-30")
    assert "has other content than was written" in skipped.pop("step-100")
    assert not skipped


def test_a_damaged_file_of_tensors_is_noticed_before_it_is_chosen(tmp_path: Path, state: Any) -> None:
    for step in (1, 2):
        save(tmp_path / str(step), state, kind="run", step=step)
    (tmp_path / "2" / "tensors-00001.safetensors").write_bytes(b"")
    found = latest(tmp_path)
    assert found.found == describe(tmp_path / "1")
    assert [path.name for path, _ in found.skipped] == ["2"]


def test_a_folder_without_checkpoints(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "no"):
        assert latest(path).found is None
        assert described_in(path) == ([], [])
