"""The JSON file that makes a folder a checkpoint: what it holds, and by which digests that can be checked."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from growkit.checkpoint.shards import regular_size, sync
from growkit.errors import CheckpointError

NAME = "manifest.json"
FORMAT = 1
"""Version of what is written; raised when older versions of growkit can no longer read it."""
_LARGEST = 2**28  # bytes; that of a model with 100,000 tensors has 2**25
_KEYS = {"growkit_checkpoint", "sha256", "content"}
_TYPES = {"kind": str, "step": int, "meta": dict, "tensors": list, "files": dict}


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a checkpoint says of itself."""

    kind: str
    """What the state is of."""
    step: int
    """By which checkpoints of one run are ordered."""
    meta: dict[str, Any]
    """Facts to show or to choose by, encoded."""
    state: Any
    """The encoded state, which refers to `tensors` by index."""
    tensors: list[dict[str, Any]]
    """How each tensor is made of a stored one."""
    files: dict[str, dict[str, Any]]
    """Size, digest and stored tensors of each file."""

    def write(self, folder: Path) -> None:
        """Puts it into the folder, on the disk.

        Raises: OSError.
        """
        content = _text(asdict(self))
        path = folder / NAME
        with path.open("x", encoding="ascii") as file:
            file.write(f'{{"growkit_checkpoint":{FORMAT},"sha256":"{_digest(content)}","content":{content}}}')
        sync(path)

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """The manifest of a folder, if it is whole and can be read by this version.

        Raises: CheckpointError, OSError.
        """
        path = folder / NAME
        if not folder.is_dir():
            raise CheckpointError(f"{folder} is no folder", "the folder of a checkpoint", "check the path")
        if not path.exists() and not path.is_symlink():
            raise CheckpointError(
                f"{folder} has no {NAME}: it is no checkpoint, or part of one",
                "a folder that `save` wrote",
                "use another checkpoint",
            )
        size = regular_size(path)
        if size > _LARGEST:
            raise CheckpointError(f"{path} has {size} bytes", f"at most {_LARGEST}", "use another checkpoint")
        try:
            given = json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise CheckpointError(
                f"{path} is no JSON: {error}", f"the {NAME} that `save` wrote", "use another checkpoint"
            ) from error
        return _checked(given, path)


def _checked(given: Any, path: Path) -> Manifest:
    version = given.get("growkit_checkpoint") if isinstance(given, dict) else None
    if type(version) is not int or version < 1:
        raise CheckpointError(f"{path} is of another program", "a checkpoint of growkit", "use another checkpoint")
    if version > FORMAT:
        raise CheckpointError(
            f"{path} has format {version}", f"formats up to {FORMAT}", "update growkit: a newer version wrote it"
        )
    try:
        content = given["content"]
        if set(given) == _KEYS and _digest(_text(content)) == given["sha256"]:
            manifest = Manifest(**content)
            if all(type(getattr(manifest, name)) is kind for name, kind in _TYPES.items()):
                return manifest
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    raise CheckpointError(
        f"{path} has other content than was written", f"the {NAME} that `save` wrote", "use another checkpoint"
    )


def _text(content: object) -> str:
    return json.dumps(content, separators=(",", ":"), allow_nan=False)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
