"""Files of tensors."""

from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from growkit.checkpoint import shards
from growkit.checkpoint.shards import check_shards, read_shards, sync, write_shards
from growkit.errors import CheckpointError


@pytest.mark.report("R111")
def test_the_files_are_those_of_any_reader_of_safetensors(tmp_path: Path) -> None:
    write_shards(tmp_path, {"a": torch.ones(2), "b": torch.tensor(True)})
    with safe_open(tmp_path / "tensors-00001.safetensors", framework="pt") as file:
        assert file.metadata() == {"format": "pt"}
        assert {name: file.get_tensor(name).tolist() for name in file.keys()} == {"a": [1, 1], "b": True}  # noqa: SIM118


def test_a_file_holds_no_more_than_its_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD_BYTES", 16)
    stored = {"a": torch.zeros(2), "b": torch.ones(2), "c": torch.ones(9), "d": torch.zeros(3), "e": torch.zeros(2)}
    files = write_shards(tmp_path, stored)
    assert [noted["tensors"] for noted in files.values()] == [["a", "b"], ["c"], ["d"], ["e"]]
    check_shards(tmp_path, files)
    read = read_shards(tmp_path, files, "cpu")
    assert list(read) == list(stored)
    assert all(torch.equal(read[name], tensor) for name, tensor in stored.items())


def test_nothing_to_store_makes_no_file(tmp_path: Path) -> None:
    assert write_shards(tmp_path, {}) == {}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.report("R114")
def test_what_was_read_needs_the_file_no_more(tmp_path: Path) -> None:
    files = write_shards(tmp_path, {"a": torch.arange(2000.0)})
    read = read_shards(tmp_path, files, "cpu")
    path = tmp_path / "tensors-00001.safetensors"
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))
    assert torch.equal(read["a"], torch.arange(2000.0))
    assert read["a"].untyped_storage().nbytes() == 8000


@pytest.mark.report("R120")
def test_only_files_that_are_named_are_read(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    write_shards(other, {"a": torch.ones(5)})
    files = write_shards(tmp_path, {"a": torch.zeros(2)})
    (other / "tensors-00001.safetensors").rename(tmp_path / "tensors-00002.safetensors")
    check_shards(tmp_path, files)
    assert read_shards(tmp_path, files, "cpu")["a"].tolist() == [0, 0]


@pytest.mark.parametrize(
    "name", ["../tensors-00001.safetensors", "/etc/passwd", "manifest.json", "", "tensors-1.safetensors\n"]
)
def test_no_path_leaves_the_folder(tmp_path: Path, name: str) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (noted,) = write_shards(tmp_path, {"a": torch.zeros(2)}).values()
    with pytest.raises(CheckpointError, match="the manifest names the file"):
        check_shards(inside, {name: noted})


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    files = write_shards(tmp_path, {"a": torch.zeros(2)})
    (inside / "tensors-00001.safetensors").symlink_to(tmp_path / "tensors-00001.safetensors")
    with pytest.raises(CheckpointError, match="tensors-00001.safetensors is no regular file"):
        check_shards(inside, files)


def test_headers_that_ask_for_more_than_there_is_are_refused(tmp_path: Path) -> None:
    """As a foreign file would, whose digest its maker noted."""
    path = tmp_path / "tensors-00001.safetensors"
    entry = '{"a":{"dtype":"F32","shape":[%s],"data_offsets":[0,%s]}}'
    for length, header in [
        (2**62, ""),
        (10, "{"),
        (0, ""),
        (None, "[" * 3000),
        (None, entry % (2**61, 2**63)),
        (None, entry % (2**62, 0)),
        (None, entry % (2, 8)),
    ]:
        path.write_bytes((len(header) if length is None else length).to_bytes(8, "little") + header.encode() + b"1234")
        with pytest.raises(CheckpointError, match="tensors-00001.safetensors: "):
            read_shards(tmp_path, {path.name: {"tensors": ["a"]}}, "cpu")


def test_folders_and_files_are_forced_to_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(shards.os, "fsync", lambda handle: seen.append(handle))
    write_shards(tmp_path, {"a": torch.zeros(2)})
    sync(tmp_path)
    assert len(seen) == 2
