"""The tests of growkit would notice if it were wrong: each planted fault makes a default test fail."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.faults import FAULTS, Fault

ROOT = Path(__file__).resolve().parents[2]
PASSED, FAILED = 0, 1
_PLUGIN = """
import growkit

def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"tested: {growkit.__file__}")
"""


def run_tests(tests: str, folder: Path) -> tuple[int, str]:
    """Exit code and output of test files, run as by default on the growkit in `folder`."""
    (folder / "which_growkit.py").write_text(_PLUGIN)
    paths = [str(ROOT / "tests" / test) for test in tests.split()]
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "which_growkit", "-o", f"pythonpath={folder} {ROOT}"]
    environment = {**os.environ, "PYTHONPATH": str(folder), "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "examples")}
    command = [sys.executable, "-m", "pytest", *options, *paths]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout + result.stderr


def planted(fault: Fault | None, folder: Path) -> Path:
    """A folder with a copy of growkit that has the fault."""
    shutil.copytree(ROOT / "growkit", folder / "growkit", ignore=shutil.ignore_patterns("__pycache__"))
    if fault is not None:
        path = folder / "growkit" / fault.file
        path.write_text(path.read_text().replace(fault.old, fault.new))
    return folder


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
