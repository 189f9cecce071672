"""Two processes that train together, with gloo on the CPU: equal bit for bit, and equal to one on the joint batch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.end_to_end.rank_runs import RANKS, one_process

ROOT = Path(__file__).resolve().parents[2]


def run_pair(folder: Path, scenario: str, *names: str) -> list[dict[str, Any]]:
    """What each rank says; both end within two minutes or are ended."""
    command = [sys.executable, "-m", "tests.end_to_end.rank_scenarios", scenario]
    outs = [folder / f"{rank}.json" for rank in range(RANKS)]
    pair = [
        subprocess.Popen(
            [*command, str(rank), str(folder / "store"), str(out), *names],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, out in enumerate(outs)
    ]
    try:
        errors = [process.communicate(timeout=120)[1] for process in pair]
    finally:
        for process in pair:
            process.kill()
            process.wait()
    assert [process.returncode for process in pair] == [0] * RANKS, "\n".join(errors)
    return [json.loads(out.read_text()) for out in outs]


def check_equal(ranks: list[dict[str, Any]], flavour: str) -> None:
    first, second = (rank[flavour] for rank in ranks)
    assert first == second
    alone = one_process(flavour)
    assert len(first["digests"]) == len(alone["digests"])
    assert first["weights"].keys() == alone["weights"].keys()
    pairs = [(first["weights"][name], value) for name, value in alone["weights"].items()]
    pairs += list(zip(first["slots"], alone["slots"], strict=True))
    for ours, theirs in pairs:
        torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs), rtol=0, atol=1e-12)


def test_ranks_that_grow_stay_equal_and_equal_to_one_process(tmp_path: Path) -> None:
    check_equal(run_pair(tmp_path, "data_parallel", "plain"), "plain")


@pytest.mark.slow
@pytest.mark.report("R078")
@pytest.mark.report("R079")
def test_data_parallel_flavours(tmp_path: Path) -> None:
    flavours = ["accumulated", "unfrozen", "averaged", "recurrent", "other start"]
    ranks = run_pair(tmp_path, "data_parallel", *flavours)
    for flavour in flavours:
        check_equal(ranks, flavour)


@pytest.mark.slow
@pytest.mark.report("R103")
@pytest.mark.report("R104")
def test_sharded_flavours(tmp_path: Path) -> None:
    """The optimizers are made before the model is sharded; one holds a part of it."""
    flavours = ["plain", "accumulated", "unfrozen", "subset", "other start"]
    ranks = run_pair(tmp_path, "sharded", *flavours)
    for flavour in flavours:
        check_equal(ranks, flavour)


@pytest.mark.slow
def test_each_rank_goes_on_where_it_was(tmp_path: Path) -> None:
    ranks = run_pair(tmp_path, "resumed", str(tmp_path / "runs"), "wrapped", "sharded")
    equal = dict.fromkeys(["1", "3", "4", "7", "9"], True)
    assert ranks == [{"wrapped": equal, "sharded": equal}] * RANKS


@pytest.mark.slow
def test_a_conformer_in_shards(tmp_path: Path) -> None:
    check_equal(run_pair(tmp_path, "sharded", "conformer"), "conformer")


SAID = {
    "one grows": "growth.request",
    "other plan": "a plan with the digest",
    "other update": "learning_rate",
    "raises": "it raised ValueError: disk full",
    "hook raises": "it raised ValueError: disk full",
    "other model": "added.0 (1,)",
    "thaws": "need a gradient",
    "uneven data": "epoch 2",
    "broken data": "it raised ValueError: disk full",
    "other settings": "gradient_clip_norm",
    "other optimizer": "(Adam) holds",
    "other splits": "splits",
    "uneven evaluation": "end of evaluation",
}


@pytest.mark.slow
@pytest.mark.report("R157")
def test_ranks_that_differ_leave_together(tmp_path: Path) -> None:
    """Each disagreement is raised on both ranks, which go on with the next one in the same processes."""
    first, second = run_pair(tmp_path, "disagreements", *SAID)
    for name, said in SAID.items():
        for text in (first[name], second[name]):
            assert text.startswith("RanksDiffer: rank 1 and rank 0 differ"), (name, text)
            assert said in text, (name, text)
            assert "rank 1: " in text


@pytest.mark.slow
def test_a_rank_whose_train_step_raises_ends_the_others_when_it_ends(tmp_path: Path) -> None:
    """At once, not after the time limit of a collective operation; each error says of which rank it is."""
    first, second = run_pair(tmp_path, "failing")
    assert second["said"] == "disk full"
    assert "closed by peer" in first["said"]
    for rank, error in enumerate((first, second)):
        assert error["noted"] == [f"rank {rank} of 2, step 3: the others end when this process has ended"]
