"""Checkpoints as folders: written whole or not at all, checked before they are read."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from growkit.checkpoint.encoding import decode, encode
from growkit.checkpoint.manifest import NAME, Manifest
from growkit.checkpoint.shards import check_shards, read_shards, sync, write_shards
from growkit.checkpoint.storage import pack, unpack
from growkit.errors import CheckpointError

_SAVING, _REPLACED, _DELETED = "saving", "replaced", "deleted"
_HIDDEN = re.compile(rf"\.(?P<name>.+)\.[0-9a-f]{{8}}\.(?P<stage>{_SAVING}|{_REPLACED}|{_DELETED})")
_MALFORMED = (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RuntimeError, OSError)


@dataclass(frozen=True, slots=True)
class Description:
    """What a checkpoint says of itself; its files are not looked at."""

    path: Path
    kind: str
    step: int
    meta: dict[str, Any]
    files: int
    """Number of files with tensors."""
    bytes: int
    """Bytes of these files together."""


def save(
    folder: str | Path, state: object, *, kind: str, step: int = 0, meta: Mapping[str, object] | None = None
) -> None:
    """Writes a nested state as a checkpoint, in the place of one that is there.

    It is written beside `folder`, forced to the disk, and then renamed: whatever happens, the folder holds what
    it held before, or all of the new. (Between the two renames of a replacement the old one has a hidden name,
    from which `tidy` brings it back.)

    state: see `encoding.encode` for what it may hold.
    kind: what the state is of; `load` compares it.
    step: by which checkpoints of one run are ordered.
    meta: facts to show or to choose by, without tensors.

    Raises: CheckpointError.
    """
    target = Path(folder)
    encoded_meta, in_meta = encode(dict(meta or {}))
    if in_meta:
        raise CheckpointError(f"meta: a tensor at {in_meta[0][0]}", "plain values", "move it into the state")
    tree, leaves = encode(state)
    specs, stored = pack(leaves)
    if target.exists() and not (target / NAME).is_file():
        raise CheckpointError(
            f"{target} exists, and is no checkpoint", "a new folder, or a checkpoint to replace", "choose another name"
        )
    working = _hidden(target, _SAVING)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        working.mkdir()
        files = write_shards(working, stored)
        Manifest(kind, step, encoded_meta, tree, specs, files).write(working)
        sync(working)
        _put(working, target)
        sync(target.parent)
    except BaseException as error:
        shutil.rmtree(working, ignore_errors=True)
        if not isinstance(error, OSError | SafetensorError):
            raise
        raise CheckpointError(
            f"{target} could not be written: {error}",
            "a disk with room, and the right to write there",
            "make room or choose another folder; checkpoints that were there before are as they were",
        ) from error


def load(folder: str | Path, *, kind: str | None = None, map_location: torch.device | str = "cpu") -> Any:
    """The state that `save` was given, with all tensors on one device.

    Everything is checked before a tensor is made: nothing that the folder says is executed, and no file outside
    it is opened.

    kind: what the state has to be of; None takes any.

    Raises: CheckpointError.
    """
    path = Path(folder)
    manifest = _read(path)
    if kind not in (None, manifest.kind):
        raise CheckpointError(
            f"{path} is a checkpoint of {manifest.kind!r}", f"one of {kind!r}", "give the path of another checkpoint"
        )
    _check_files(path, manifest)
    try:
        stored = read_shards(path, manifest.files, map_location)
        return decode(manifest.state, unpack(manifest.tensors, stored))
    except _MALFORMED as error:
        raise _not_ours(path, error) from error


def describe(folder: str | Path) -> Description:
    """What a checkpoint says of itself, without reading its tensors.

    Raises: CheckpointError.
    """
    path = Path(folder)
    manifest = _read(path)
    try:
        size = sum(noted["bytes"] for noted in manifest.files.values())
        meta = decode(manifest.meta, ())
        return Description(path, manifest.kind, manifest.step, meta, len(manifest.files), size)
    except _MALFORMED as error:
        raise _not_ours(path, error) from error


def verify(folder: str | Path) -> None:
    """Reads every file of a checkpoint and compares it with its digest.

    Raises: CheckpointError.
    """
    path = Path(folder)
    _check_files(path, _read(path))


def remove(folder: str | Path) -> None:
    """Deletes a checkpoint: renamed first, so that no half of it is ever taken for one.

    Raises: CheckpointError.
    """
    path = Path(folder)
    _read(path)
    gone = _hidden(path, _DELETED)
    try:
        os.replace(path, gone)
        shutil.rmtree(gone)
    except OSError as error:
        raise CheckpointError(
            f"{path} could not be deleted: {error}", "a folder that may be written to", "delete it by hand"
        ) from error


def tidy(folder: str | Path) -> list[str]:
    """Clears away what saves and deletions that were cut off left in a folder of checkpoints; says what it did.

    Only for a folder that nobody saves to at the moment.
    """
    done = []
    for path in sorted(Path(folder).glob(".*")):
        match = _HIDDEN.fullmatch(path.name)
        if match is None or path.is_symlink() or not path.is_dir():
            continue
        target = path.with_name(match["name"])
        if match["stage"] == _REPLACED and not target.exists():
            os.replace(path, target)
            done.append(f"{target}: put back")
        else:
            shutil.rmtree(path)
            done.append(f"{path}: deleted")
    return done


def is_hidden(path: Path) -> bool:
    """Whether a path is one that `save` and `remove` use while they are at work."""
    return _HIDDEN.fullmatch(path.name) is not None


def _put(working: Path, target: Path) -> None:
    if not target.exists():
        os.replace(working, target)
        return
    old = _hidden(target, _REPLACED)
    os.replace(target, old)
    try:
        os.replace(working, target)
    except BaseException:
        os.replace(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _hidden(path: Path, stage: str) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.{stage}")


def _read(path: Path) -> Manifest:
    try:
        return Manifest.read(path)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}", "a folder that can be read", "see to that") from error


def _check_files(path: Path, manifest: Manifest) -> None:
    try:
        check_shards(path, manifest.files)
    except _MALFORMED as error:
        raise _not_ours(path, error) from error


def _not_ours(path: Path, error: Exception) -> CheckpointError:
    return CheckpointError(
        f"{path}: {type(error).__name__}: {error}", "a checkpoint that `save` wrote", "use another checkpoint"
    )
