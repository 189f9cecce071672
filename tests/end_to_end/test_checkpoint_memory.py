"""What loading a checkpoint holds in memory and reads from the disk."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from growkit.checkpoint import described_in, shards
from growkit.checkpoint.folder import describe, load, save

MEMORY = """
import sys
from pathlib import Path
import torch
from growkit.checkpoint import folder, shards

def number(file, name):
    return next(int(line.split()[1]) for line in Path(file).read_text().splitlines() if line.startswith(name))

shards.SHARD_BYTES = 16 * 2**20
if sys.argv[2] == "save":
    folder.save(sys.argv[1], {str(n): torch.full((2**20,), float(n)) for n in range(32)}, kind="run")
else:
    before, read = number("/proc/self/status", "VmRSS"), number("/proc/self/io", "rchar")
    state = folder.load(sys.argv[1])
    print(number("/proc/self/status", "VmHWM") * 1024 - before * 1024, number("/proc/self/io", "rchar") - read)
"""


def _probed(*arguments: str) -> list[int]:
    done = subprocess.run([sys.executable, "-c", MEMORY, *arguments], capture_output=True, text=True, check=True)
    return [int(number) for number in done.stdout.split()]


@pytest.mark.slow
@pytest.mark.report("R183")
def test_loading_needs_the_state_and_one_file_of_it(tmp_path: Path) -> None:
    """128 MiB in 8 files: what is held is one copy, and the file that is mapped; each byte is read once."""
    _probed(str(tmp_path / "a"), "save")
    assert describe(tmp_path / "a").files == 8
    held, read = _probed(str(tmp_path / "a"), "load")
    size, file = 128 * 2**20, 16 * 2**20
    assert size <= held < size + 2 * file
    assert size <= read < size + 2**20


@pytest.mark.report("R185")
def test_what_a_checkpoint_says_of_itself_is_told_without_its_tensors(tmp_path: Path) -> None:
    for step in (1, 2):
        save(tmp_path / str(step), [torch.ones(2)], kind="run", step=step, meta={"loss": 1 / step})
        (tmp_path / str(step) / "tensors-00001.safetensors").unlink()
    assert describe(tmp_path / "2").meta == {"loss": 0.5}
    found, damaged = described_in(tmp_path)
    assert [one.step for one in found] == [1, 2]
    assert damaged == []


@pytest.mark.report("R185")
def test_one_file_is_open_at_a_time_and_a_load_that_was_cut_off_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "SHARD_BYTES", 16)
    save(tmp_path / "a", {str(number): torch.full((4,), float(number)) for number in range(5)}, kind="run")
    before = {path: path.read_bytes() for path in (tmp_path / "a").iterdir()}
    opened: list[int] = []
    safe_open = shards.safe_open

    class Opened:
        def __init__(self, *given: Any, **more: Any):
            self.file = safe_open(*given, **more)

        def __enter__(self) -> Any:
            opened.append(opened[-1] + 1 if opened else 1)
            if cut_off and len(opened) == 5:
                raise KeyboardInterrupt
            return self.file.__enter__()

        def __exit__(self, *error: Any) -> None:
            opened.append(opened[-1] - 1)
            self.file.__exit__(*error)

    monkeypatch.setattr(shards, "safe_open", Opened)
    cut_off = True
    with pytest.raises(KeyboardInterrupt):
        load(tmp_path / "a")
    cut_off = False
    opened.clear()
    assert [tensor[0].item() for tensor in load(tmp_path / "a").values()] == [0, 1, 2, 3, 4]
    assert opened == [1, 0] * 5
    assert {path: path.read_bytes() for path in (tmp_path / "a").iterdir()} == before
