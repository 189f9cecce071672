"""Files of tensors: writing them, checking them against what was noted of them, reading them."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from growkit.errors import CheckpointError

SHARD_BYTES = 2**31
"""Bytes of tensors in one file, unless a single one is larger. As many are copied at once from other devices."""
_NAME = re.compile(r"tensors-\d{5}\.safetensors")
_CHUNK = 2**20


def write_shards(folder: Path, stored: Mapping[str, torch.Tensor]) -> dict[str, dict[str, Any]]:
    """Writes the tensors into files of the folder; gives size, digest and tensors of each file.

    Raises: OSError, SafetensorError.
    """
    files: dict[str, dict[str, Any]] = {}
    for number, names in enumerate(_shards(stored), 1):
        path = folder / f"tensors-{number:05}.safetensors"
        save_file({name: stored[name].cpu() for name in names}, path, metadata={"format": "pt"})
        sync(path)
        files[path.name] = {"bytes": path.stat().st_size, "sha256": _digest(path), "tensors": names}
    return files


def check_shards(folder: Path, files: Mapping[str, Mapping[str, Any]]) -> None:
    """Whether each file is there as it was written; files of other names are not looked at.

    Raises: CheckpointError, OSError.
    """
    for name, noted in files.items():
        if not _NAME.fullmatch(name):
            raise CheckpointError(
                f"{folder}: the manifest names the file {name!r}",
                "files named tensors-00001.safetensors and so on, inside the folder",
                "do not trust this checkpoint; use another",
            )
        path = folder / name
        size = regular_size(path)
        if size != noted["bytes"]:
            raise CheckpointError(
                f"{path} has {size} bytes, {noted['bytes']} were written",
                "files as `save` wrote them",
                "copy it again from where it is whole, or use another checkpoint",
            )
        if _digest(path) != noted["sha256"]:
            raise CheckpointError(
                f"{path} has other content than was written (sha256 differs)",
                "files as `save` wrote them",
                "copy it again from where it is whole, or use another checkpoint",
            )


def read_shards(
    folder: Path, files: Mapping[str, Mapping[str, Any]], device: torch.device | str
) -> dict[str, torch.Tensor]:
    """The tensors of checked files by name, in memory of their own: no file stays mapped.

    Raises: CheckpointError, OSError.
    """
    tensors = {}
    for name, noted in files.items():
        try:
            with safe_open(folder / name, framework="pt") as file:
                for key in noted["tensors"]:
                    tensors[key] = file.get_tensor(key).clone().to(device)
        except SafetensorError as error:
            raise CheckpointError(
                f"{folder / name}: {error}", "a safetensors file with what the manifest names", "use another checkpoint"
            ) from error
    return tensors


def regular_size(path: Path) -> int:
    """Bytes of a regular file.

    Raises: CheckpointError where it is missing, or is a link, folder or device.
    """
    try:
        found = path.lstat()
    except FileNotFoundError as error:
        raise CheckpointError(
            f"{path} is missing", "all files that `save` wrote", "copy it from where it is, or use another checkpoint"
        ) from error
    if not stat.S_ISREG(found.st_mode):
        raise CheckpointError(f"{path} is no regular file", "files, no links", "put the file itself in its place")
    return found.st_size


def sync(path: Path) -> None:
    """Returns when a file, or the entries of a folder, are on the disk."""
    if path.is_dir() and os.name == "nt":  # Windows opens no folders
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _shards(stored: Mapping[str, torch.Tensor]) -> Iterator[list[str]]:
    names: list[str] = []
    size = 0
    for name, tensor in stored.items():
        if names and size + tensor.nbytes > SHARD_BYTES:
            yield names
            names, size = [], 0
        names.append(name)
        size += tensor.nbytes
    if names:
        yield names


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
