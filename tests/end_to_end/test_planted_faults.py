"""The tests of growkit would notice if it were wrong: each planted fault makes a default test fail."""

import multiprocessing
import os
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from tests.end_to_end.faults import FAULTS, Fault

ROOT = Path(__file__).resolve().parents[2]
PASSED, FAILED = 0, 1


def planted(fault: Fault | None, folder: Path) -> Path:
    """A folder with a copy of growkit that has the fault."""
    shutil.copytree(ROOT / "growkit", folder / "growkit", ignore=shutil.ignore_patterns("__pycache__"))
    if fault is not None:
        path = folder / "growkit" / fault.file
        path.write_text(path.read_text().replace(fault.old, fault.new))
    return folder


def run_tests(tests: str, folder: Path) -> tuple[int | None, str]:
    """Exit code and output of test files, run as by default on the growkit in `folder`, in a process of their own."""
    # each process is a fork of one that has these imported, which takes longer than most of the tests
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "torch.optim.swa_utils", "einops", "hypothesis.extra", "pytest", "rich"])
    process = context.Process(target=_run, args=([str(ROOT / "tests" / test) for test in tests.split()], folder))
    process.start()
    process.join()
    return process.exitcode, (folder / "output").read_text()


def _run(paths: list[str], folder: Path) -> None:
    output = os.open(folder / "output", os.O_CREAT | os.O_WRONLY)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(folder)  # where hypothesis keeps the examples that it finds
    assert "growkit" not in sys.modules
    sys.path[:0] = [str(folder)]
    settings.register_profile("planted", derandomize=True, phases=[Phase.explicit, Phase.generate])
    settings.load_profile("planted")
    options = ["-x", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "setup.cfg"), "-o", f"pythonpath={folder} {ROOT}"]
    preloaded = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    code = pytest.main([*options, *preloaded, *paths])
    print("tested:", sys.modules["growkit"].__file__, flush=True)
    os._exit(code)


def test_every_fault_has_a_name_and_a_place_of_its_own() -> None:
    assert len(FAULTS) >= 30
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    for fault in FAULTS:
        assert (ROOT / "growkit" / fault.file).read_text().count(fault.old) == 1, fault.name
        assert all((ROOT / "tests" / test).is_file() for test in fault.tests.split()), fault.name


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_planted_fault_is_caught(fault: Fault, tmp_path: Path) -> None:
    code, output = run_tests(fault.tests, planted(fault, tmp_path))
    assert f"tested: {tmp_path / 'growkit' / '__init__.py'}" in output
    assert code == FAILED, output


@pytest.mark.slow
def test_without_a_fault_the_same_tests_pass(tmp_path: Path) -> None:
    code, output = run_tests("maps/test_axis_map.py growth/test_edits.py", planted(None, tmp_path))
    assert f"tested: {tmp_path / 'growkit' / '__init__.py'}" in output
    assert code == PASSED, output
