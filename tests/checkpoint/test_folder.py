"""Checkpoints written, read, replaced, damaged and cut off."""

import errno
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from growkit.checkpoint import folder as folder_module
from growkit.checkpoint import latest, manifest, shards
from growkit.checkpoint.folder import Description, describe, is_hidden, load, remove, save, tidy, verify
from growkit.errors import CheckpointError


def test_a_state_is_read_as_it_was_saved(tmp_path: Path, state: Any) -> None:
    save(tmp_path / "deep" / "a", state, kind="run", step=7, meta={"loss": 0.25})
    found = load(tmp_path / "deep" / "a", kind="run")
    assert repr(found) == repr(state)
    found["model"]["embedding"][0, 0] = 9
    assert found["model"]["head"][0, 0] == 9
    size = (tmp_path / "deep" / "a" / "tensors-00001.safetensors").stat().st_size
    assert describe(tmp_path / "deep" / "a") == Description(tmp_path / "deep" / "a", "run", 7, {"loss": 0.25}, 1, size)
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["a"]


def test_tensors_come_to_the_device_that_is_asked_for(tmp_path: Path, state: Any) -> None:
    save(tmp_path / "a", state, kind="run")
    assert load(tmp_path / "a", map_location="meta")["model"]["head"].is_meta


@pytest.mark.report("R195")
def test_a_checkpoint_is_replaced(tmp_path: Path, state: Any) -> None:
    for number in (1, 2):
        save(tmp_path / "a", {**state, "number": number}, kind="run")
    assert load(tmp_path / "a")["number"] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_what_is_no_checkpoint_is_not_replaced(tmp_path: Path, state: Any) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "thesis.tex").write_text("x")
    with pytest.raises(CheckpointError, match="exists, and is no checkpoint"):
        save(tmp_path / "a", state, kind="run")
    with pytest.raises(CheckpointError, match="it is no checkpoint"):
        remove(tmp_path / "a")
    assert (tmp_path / "a" / "thesis.tex").read_text() == "x"


def test_another_kind_is_refused(tmp_path: Path, state: Any) -> None:
    save(tmp_path / "a", state, kind="model")
    with pytest.raises(CheckpointError, match="a checkpoint of 'model'"):
        load(tmp_path / "a", kind="run")


def test_what_cannot_be_saved_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="a.b: a set"):
        save(tmp_path / "a", {"a": {"b": {1}}}, kind="run")
    with pytest.raises(CheckpointError, match="meta: a tensor at loss"):
        save(tmp_path / "a", {}, kind="run", meta={"loss": torch.zeros(1)})
    assert list(tmp_path.iterdir()) == []


class Killed(BaseException):
    """What ends a process at once; nothing of ours may act on it, so the clean-up is switched off with it."""


CALLS = [(os, "fsync"), (os, "replace"), (folder_module, "write_shards"), (shards, "save_file"), (shutil, "rmtree")]


def interruptions() -> Iterator[Any]:
    """Every call of a save that touches the disk, cut off before it and after it."""
    for owner, name in CALLS:
        for after in (False, True):
            for count in range(4):
                yield pytest.param(owner, name, count, after, id=f"{name}-{count}-{'after' if after else 'before'}")


@pytest.mark.report("R115")
@pytest.mark.report("R117")
@pytest.mark.parametrize(("owner", "name", "count", "after"), list(interruptions()))
@pytest.mark.parametrize("replacing", [False, True])
def test_a_save_that_is_cut_off_leaves_the_old_checkpoint_or_the_new_one(
    tmp_path: Path, state: Any, owner: Any, name: str, count: int, after: bool, replacing: bool
) -> None:
    target = tmp_path / ("1" if replacing else "2")
    save(tmp_path / "1", {**state, "number": 1}, kind="run", step=1)
    calls = 0
    real = getattr(owner, name)

    def cut(*given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls - 1 != count:
            return real(*given, **named)
        if after:
            real(*given, **named)
        patch.setattr(shutil, "rmtree", lambda *given, **named: None)
        patch.setattr(os, "replace", dead)
        raise Killed

    def dead(*given: Any) -> None:
        raise Killed

    killed = False
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, cut)
        try:
            save(target, {**state, "number": 2}, kind="run", step=2)
        except Killed:
            killed = True
    assert killed == (calls > count)
    tidy(tmp_path)
    found = latest(tmp_path)
    assert found.found is not None
    assert load(found.found.path)["number"] in ((1, 2) if killed else (2,))
    assert load(tmp_path / "1")["number"] == 1 or replacing
    assert not any(is_hidden(path) for path in tmp_path.iterdir())


@pytest.mark.parametrize(("owner", "name"), [(os, "fsync"), (os, "replace"), (shards, "save_file")])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES])
def test_a_disk_that_is_full_or_closed_leaves_what_was_there(
    tmp_path: Path, state: Any, owner: Any, name: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "a", {**state, "number": 1}, kind="run")
    real, calls = getattr(owner, name), []

    def fail(*given: Any, **named: Any) -> Any:
        calls.append(given)
        if len(calls) == (2 if name == "replace" else 1):  # the first one sets the old checkpoint aside
            raise OSError(code, os.strerror(code))
        return real(*given, **named)

    monkeypatch.setattr(owner, name, fail)
    with pytest.raises(CheckpointError, match=f"a could not be written: .*{os.strerror(code)}"):
        save(tmp_path / "a", {**state, "number": 2}, kind="run")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert load(tmp_path / "a")["number"] == 1


@pytest.mark.report("R132")
def test_a_file_that_is_cut_longer_or_changed_is_named_with_its_sizes(tmp_path: Path, state: Any) -> None:
    save(tmp_path / "a", state, kind="run")
    path = tmp_path / "a" / "tensors-00001.safetensors"
    whole = path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    for cut in (0, 4, 8, 9, header - 1, header, header + 1, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(CheckpointError, match=f"{path} has {cut} bytes, {len(whole)} were written"):
            load(tmp_path / "a")
    path.write_bytes(whole + b"1234")
    with pytest.raises(CheckpointError, match=f"{path} has {len(whole) + 4} bytes, {len(whole)} were written"):
        load(tmp_path / "a")
    for index in range(len(whole)):
        path.write_bytes(whole[:index] + bytes([whole[index] ^ 16]) + whole[index + 1 :])
        with pytest.raises(CheckpointError, match=f"{path} has other content"):
            verify(tmp_path / "a")
    path.unlink()
    with pytest.raises(CheckpointError, match=f"{path} is missing"):
        load(tmp_path / "a")


def test_files_of_another_checkpoint_are_refused(tmp_path: Path, state: Any) -> None:
    save(tmp_path / "a", state, kind="run")
    save(tmp_path / "b", {**state, "progress": {"epoch": 3}, "carry": torch.ones(2)}, kind="run")
    for name in ("tensors-00001.safetensors", "manifest.json"):
        shutil.copytree(tmp_path / "a", tmp_path / "mixed", dirs_exist_ok=True)
        shutil.copy(tmp_path / "b" / name, tmp_path / "mixed" / name)
        with pytest.raises(CheckpointError, match="tensors-00001.safetensors has"):
            load(tmp_path / "mixed")


def changed(path: Path, change: Any) -> None:
    """Writes another manifest, with the digest that fits it."""
    content = json.loads((path / manifest.NAME).read_text())["content"]
    change(content)
    (path / manifest.NAME).unlink()
    manifest.Manifest(**content).write(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["tensors"].pop(),
        lambda content: content["tensors"][0].update(stored="no"),
        lambda content: content["tensors"][0].update(shape=[10**30, 0]),
        lambda content: content["tensors"][0].pop("dtype"),
        lambda content: content["tensors"].append(3),
        lambda content: content["state"].update(x={"$": "tensor", "index": 99}),
        lambda content: content["state"].update(x={"$": "tensor"}),
        lambda content: content["state"].update(x={"$": "float", "value": []}),
        lambda content: content["state"].update(x={"$": "device", "value": "no"}),
        lambda content: content["state"].update(x={"$": "dict", "items": [[[], 1]]}),
        lambda content: content["files"].update({"../tensors-00001.safetensors": {}}),
        lambda content: content["files"]["tensors-00001.safetensors"].pop("bytes"),
        lambda content: content["files"]["tensors-00001.safetensors"]["tensors"].append("no"),
        lambda content: content["files"].update({"tensors-00001.safetensors": None}),
    ],
)
def test_a_manifest_that_contradicts_itself_is_refused(tmp_path: Path, state: Any, change: Any) -> None:
    save(tmp_path / "a", state, kind="run")
    changed(tmp_path / "a", change)
    with pytest.raises(CheckpointError):
        load(tmp_path / "a")


def test_the_same_change_without_a_fault_is_read(tmp_path: Path, state: Any) -> None:
    save(tmp_path / "a", state, kind="run")
    changed(tmp_path / "a", lambda content: content["state"].update(x=3))
    assert load(tmp_path / "a")["x"] == 3


@pytest.mark.report("R122")
def test_nothing_that_a_file_says_is_executed(tmp_path: Path, state: Any) -> None:
    """No module of the package knows pickle, and a pickle in the place of a file is refused."""
    package = Path(folder_module.__file__).parent
    assert not [
        path for path in package.glob("*.py") if "pickle" in path.read_text() or "torch.load" in path.read_text()
    ]
    save(tmp_path / "a", state, kind="run")
    torch.save(state, tmp_path / "a" / "tensors-00001.safetensors")
    with pytest.raises(CheckpointError, match="tensors-00001.safetensors has"):
        load(tmp_path / "a")


def test_a_checkpoint_is_deleted_by_name_first(tmp_path: Path, state: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "a", state, kind="run")

    def fail(path: Path) -> None:
        raise OSError(errno.EACCES, "no")

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", fail)
        with pytest.raises(CheckpointError, match="a could not be deleted"):
            remove(tmp_path / "a")
    assert latest(tmp_path).found is None
    (left,) = tmp_path.iterdir()
    assert tidy(tmp_path) == [f"{left}: deleted"]
    assert list(tmp_path.iterdir()) == []


def test_tidying_touches_nothing_else(tmp_path: Path, state: Any) -> None:
    for name in (".hidden", ".a.saving", "a.01234567.saving", "plain"):
        (tmp_path / name).mkdir()
    (tmp_path / ".a.01234567.saving").symlink_to(tmp_path / "plain")
    (tmp_path / ".b.01234567.saving").write_text("a file")
    assert tidy(tmp_path) == []
    assert len(list(tmp_path.iterdir())) == 6
    assert tidy(tmp_path / "no") == []
