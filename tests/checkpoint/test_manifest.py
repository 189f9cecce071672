"""The file that makes a folder a checkpoint."""

import json
from pathlib import Path
from typing import Any

import pytest

from growkit.checkpoint import manifest
from growkit.checkpoint.manifest import NAME, Manifest
from growkit.errors import CheckpointError

WHOLE = Manifest("run", 3, {"loss": 0.1}, {"a": [1, None, -0.0]}, [], {})


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    WHOLE.write(tmp_path)
    assert Manifest.read(tmp_path) == WHOLE


def test_every_byte_counts(tmp_path: Path) -> None:
    """Cut anywhere or with any bit of any byte flipped: another text, and refused (or, at most, the same content)."""
    WHOLE.write(tmp_path)
    path = tmp_path / NAME
    text = path.read_bytes()
    for index in range(len(text)):
        for wrong in (text[:index], text[:index] + bytes([text[index] ^ 1 << index % 8]) + text[index + 1 :]):
            path.write_bytes(wrong)
            with pytest.raises(CheckpointError, match=f"{NAME} "):
                Manifest.read(tmp_path)
    path.write_bytes(text + b"x")
    with pytest.raises(CheckpointError, match="is no JSON"):
        Manifest.read(tmp_path)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    WHOLE.write(tmp_path)
    path = tmp_path / NAME
    path.write_text(path.read_text().replace('"growkit_checkpoint":1', '"growkit_checkpoint":2'))
    with pytest.raises(CheckpointError, match="has format 2") as caught:
        Manifest.read(tmp_path)
    assert "update growkit" in caught.value.next_step


OTHERS = ["", "[]", "{}", "3", '"growkit_checkpoint"', '{"format": 1}', "NaN", "[" * 100_000, "9" * 5000, "\xff"]
OTHERS += [f'{{"growkit_checkpoint": {version}, "sha256": "", "content": NaN}}' for version in ("true", 0, 1)]


@pytest.mark.parametrize("text", [*OTHERS, '{"growkit_checkpoint": 1}'])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_bytes(text.encode("latin-1"))
    with pytest.raises(CheckpointError, match=f"{NAME} (is no JSON|is of another program|has other content)"):
        Manifest.read(tmp_path)


@pytest.mark.parametrize("change", [{"step": "3"}, {"files": []}, {"kind": None}, {"more": 1}, {"meta": 3}])
def test_content_of_another_form_is_refused_though_its_digest_fits(
    tmp_path: Path, change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "asdict", lambda whole: {**vars_of(whole), **change})
    WHOLE.write(tmp_path)
    with pytest.raises(CheckpointError, match="has other content than was written"):
        Manifest.read(tmp_path)


def vars_of(whole: Manifest) -> dict[str, Any]:
    return {name: getattr(whole, name) for name in Manifest.__slots__}


def test_what_is_no_file_or_too_large_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CheckpointError, match="is no folder"):
        Manifest.read(tmp_path / "no")
    with pytest.raises(CheckpointError, match="has no manifest.json: it is no checkpoint, or part of one"):
        Manifest.read(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    WHOLE.write(tmp_path / "elsewhere")
    (tmp_path / NAME).symlink_to(tmp_path / "elsewhere" / NAME)
    with pytest.raises(CheckpointError, match="is no regular file"):
        Manifest.read(tmp_path)
    (tmp_path / NAME).unlink()
    with (tmp_path / NAME).open("wb") as file:
        file.truncate(2**40)  # without data on the disk
    with pytest.raises(CheckpointError, match=f"has {2**40} bytes"):
        Manifest.read(tmp_path)


def test_numbers_that_json_has_not_are_never_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        Manifest("run", 3, {}, float("nan"), [], {}).write(tmp_path)
    assert json.loads("NaN") != 0  # Python would read it
