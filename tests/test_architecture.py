"""The architecture as checks on the syntax trees: floors, imports, names, sizes, docstrings, mirrored tests.

Every check is a function of a directory that holds `growkit/` and `tests/`, and gives the faults as texts. It is run on
the real tree, where it must find nothing, and on a small tree with one planted fault, which it must find.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

FLOORS = {
    "axes": 0,
    "maps": 1,
    "nn": 1,
    "checkpoint": 1,
    "kernels": 2,
    "constraints": 2,
    "optim": 3,
    "discovery": 3,
    "growth": 4,
    "ops": 5,
    "train": 5,
    "integrations": 6,
    "testing": 6,
    "cli": 7,
}
NEVER = {"train": {"growth", "discovery", "optim"}}
THIRD_PARTIES = {
    "nn": {"torch", "einops"},
    "checkpoint": {"torch", "safetensors"},
    "kernels": {"torch", "einops"},
    "optim": {"torch"},
    "discovery": {"torch"},
    "growth": {"torch"},
    "ops": {"torch"},
    "train": {"torch", "rich"},
    "integrations": {"torch"},
    "testing": {"torch", "hypothesis", "transformers", "conformer", "x_transformers", "returnn", "peft", "tree"},
    "cli": {"torch", "typer", "rich", "matplotlib", "safetensors"},
}
# The only module that imports modules of its own by name: the zoo, whose libraries need not be there.
IMPORTS_BY_NAME = {"growkit.testing.zoo.foreign"}
FORBIDDEN_NAMES = {"utils", "helpers", "common", "misc", "base"}
LONGEST_FILE = 320
# Tests of the whole, beside those that mirror a module.
FREE_TEST_FOLDERS = {".", "end_to_end"}


# ------------------------------------------------------------------------------------------------ reading


def modules(root: Path) -> dict[str, Path]:
    """Dotted name of every module of growkit, and its file."""
    found = {}
    for path in sorted((root / "growkit").rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def imports(name: str, path: Path, known: dict[str, Path], within: ast.AST | None = None) -> Iterator[tuple[str, int]]:
    """Every module that a module imports, with the line; `from package import module` gives the module."""
    for node in ast.walk(within or tree(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            package = name if path.name == "__init__.py" else name.rpartition(".")[0]
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{origin}.{alias.name}"
                yield (inner if inner in known else origin), node.lineno


def package_of(module: str) -> str | None:
    """`optim` for `growkit.optim.rules`; `errors` for `growkit.errors`; None for growkit itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


def is_ours(module: str) -> bool:
    return module.split(".")[0] == "growkit"


# ------------------------------------------------------------------------------------------------ checks


def floors(root: Path) -> list[str]:
    known, faults = modules(root), []
    for name, path in known.items():
        package = package_of(name)
        if package is None:
            continue
        if package != "errors" and package not in FLOORS:
            faults.append(f"{name}: the package {package!r} has no floor")
            continue
        for target, line in imports(name, path, known):
            goal = package_of(target)
            if not is_ours(target) or goal in {package, "errors"}:
                continue
            if FLOORS.get(goal or "", 99) >= FLOORS.get(package, 0) or goal in NEVER.get(package, ()):
                faults.append(f"{name}:{line} may not import {target}")
    return faults


def third_parties(root: Path) -> list[str]:
    known, faults = modules(root), []
    for name, path in known.items():
        allowed = THIRD_PARTIES.get(package_of(name) or "", set())
        for target, line in imports(name, path, known):
            top = target.split(".")[0]
            if not is_ours(target) and top not in sys.stdlib_module_names and top not in allowed:
                faults.append(f"{name}:{line} may not import {top}")
    return faults


def idle_entries(root: Path, tables: Iterable[Iterable[str]]) -> list[str]:
    """Packages that the tables above name and that do not exist."""
    packages = {package_of(name) for name in modules(root)}
    return sorted(f"{entry}: a table names it, and no module is there" for entry in set().union(*tables) - packages)


def cycles(root: Path) -> list[str]:
    known = modules(root)
    graph = {n: {t for t, _ in imports(n, p, known) if t in known and t != n} for n, p in known.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return ["cycle: " + " <- ".join(error.args[1])]
    return []


def hidden_imports(root: Path) -> list[str]:
    known, faults = modules(root), set()
    for name, path in known.items():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                found = imports(name, path, known, within=node)
                faults |= {
                    f"{name}:{line} imports {target} inside a function" for target, line in found if is_ours(target)
                }
    return sorted(faults)


def imports_by_name(root: Path) -> list[str]:
    known, faults = modules(root), []
    for name, path in known.items():
        found = {target: line for target, line in imports(name, path, known)}
        if name not in IMPORTS_BY_NAME and "importlib" in found:
            faults.append(f"{name}:{found['importlib']} may not import modules by name")
    return faults


def names(root: Path) -> list[str]:
    return [f"{name}: a name that says nothing" for name in modules(root) if FORBIDDEN_NAMES & set(name.split("."))]


def lengths(root: Path) -> list[str]:
    files = [*(root / "growkit").rglob("*.py"), *(root / "tests").rglob("*.py")]
    counts = {path: len(path.read_text().splitlines()) for path in files}
    return [
        f"{path.relative_to(root)}: {n} lines, at most {LONGEST_FILE}" for path, n in counts.items() if n > LONGEST_FILE
    ]


def mirrored_tests(root: Path) -> list[str]:
    sources = {
        path.relative_to(root / "growkit").with_name(f"test_{path.name}")
        for path in (root / "growkit").rglob("*.py")
        if not path.name.startswith("__")
    }
    tests = {path.relative_to(root / "tests") for path in (root / "tests").rglob("test_*.py")}
    missing = [f"tests/{path} is missing" for path in sorted(sources - tests)]
    orphans = [path for path in sorted(tests - sources) if str(path.parent) not in FREE_TEST_FOLDERS]
    return missing + [f"tests/{path} tests no module" for path in orphans]


def docstrings(root: Path) -> list[str]:
    faults = []
    for name, path in modules(root).items():
        content = tree(path)
        if content.body and not ast.get_docstring(content):
            faults.append(f"{name}: the module has no docstring")
        faults += [f"{name}.{what} has no docstring" for what in _undocumented(content, "")]
    return faults


def _undocumented(parent: ast.Module | ast.ClassDef, prefix: str) -> Iterator[str]:
    for node in parent.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        marks = {ast.unparse(d).rpartition(".")[2] for d in node.decorator_list}
        # The getter speaks for the setter, the implementation for its overloads.
        if not ast.get_docstring(node) and not marks & {"setter", "overload", "override"}:
            yield prefix + node.name
        if isinstance(node, ast.ClassDef):
            yield from _undocumented(node, f"{prefix}{node.name}.")


# ------------------------------------------------------------------------------------------------ tests

DOC = '"""Doc."""\n'
PLANTED: list[tuple[Callable[[Path], list[str]], dict[str, str], list[str]]] = [
    (floors, {"growkit/axes/a.py": "from growkit.maps import m"}, ["growkit.axes.a:1 may not import growkit.maps"]),
    (floors, {"growkit/nn/a.py": "import growkit.maps.m"}, ["growkit.nn.a:1 may not import growkit.maps.m"]),
    (floors, {"growkit/train/a.py": "from ..growth import g"}, ["growkit.train.a:1 may not import growkit.growth"]),
    (floors, {"growkit/train/a.py": "import growkit.optim"}, ["growkit.train.a:1 may not import growkit.optim"]),
    (floors, {"growkit/cli/a.py": "import growkit"}, ["growkit.cli.a:1 may not import growkit"]),
    (floors, {"growkit/errors.py": "import growkit.axes"}, ["growkit.errors:1 may not import growkit.axes"]),
    (floors, {"growkit/extra/a.py": ""}, ["growkit.extra.a: the package 'extra' has no floor"]),
    (third_parties, {"growkit/axes/a.py": "import torch.nn"}, ["growkit.axes.a:1 may not import torch"]),
    (third_parties, {"growkit/growth/a.py": "\nimport rich"}, ["growkit.growth.a:2 may not import rich"]),
    (third_parties, {"growkit/optim/a.py": "def f():\n    import numpy"}, ["growkit.optim.a:2 may not import numpy"]),
    (third_parties, {"growkit/__init__.py": "import torch"}, ["growkit:1 may not import torch"]),
    (
        cycles,
        {"growkit/axes/a.py": "from growkit.axes import b", "growkit/axes/b.py": "from .a import x"},
        ["cycle: growkit.axes.a <- growkit.axes.b <- growkit.axes.a"],
    ),
    (
        hidden_imports,
        {"growkit/axes/a.py": "def f():\n    def g():\n        from growkit.axes import b"},
        ["growkit.axes.a:3 imports growkit.axes inside a function"],
    ),
    (imports_by_name, {"growkit/axes/a.py": "import importlib"}, ["growkit.axes.a:1 may not import modules by name"]),
    (names, {"growkit/axes/utils.py": ""}, ["growkit.axes.utils: a name that says nothing"]),
    (names, {"growkit/axes/common/a.py": ""}, ["growkit.axes.common.a: a name that says nothing"]),
    (lengths, {"growkit/axes/a.py": "x = 1\n" * 321}, ["growkit/axes/a.py: 321 lines, at most 320"]),
    (lengths, {"tests/axes/test_a.py": "x = 1\n" * 321}, ["tests/axes/test_a.py: 321 lines, at most 320"]),
    (mirrored_tests, {"growkit/axes/deep/a.py": ""}, ["tests/axes/deep/test_a.py is missing"]),
    (mirrored_tests, {"tests/axes/test_a.py": ""}, ["tests/axes/test_a.py tests no module"]),
    (docstrings, {"growkit/axes/a.py": "x = 1"}, ["growkit.axes.a: the module has no docstring"]),
    (docstrings, {"growkit/axes/a.py": DOC + "def f(): ..."}, ["growkit.axes.a.f has no docstring"]),
    (
        docstrings,
        {"growkit/axes/a.py": DOC + "class C:\n    'Doc.'\n    @property\n    def p(self): ..."},
        ["growkit.axes.a.C.p has no docstring"],
    ),
]
SOUND = {
    "growkit/__init__.py": DOC + "from growkit.growth.g import h",
    "growkit/errors.py": DOC,
    "growkit/axes/__init__.py": "",
    "growkit/axes/a.py": DOC + "import re\nfrom growkit.errors import E\ndef _private(): ...",
    "growkit/maps/m.py": DOC + "from growkit.axes import a",
    "growkit/growth/g.py": DOC + "import torch\nfrom growkit.axes.a import x\ndef h():\n    'Doc.'\n    import math",
    "tests/test_whole.py": "",
    "tests/end_to_end/test_run.py": "",
    "tests/test_errors.py": "",
    "tests/axes/test_a.py": "",
    "tests/maps/test_m.py": "",
    "tests/growth/test_g.py": "",
}
CHECKS = (floors, third_parties, cycles, hidden_imports, imports_by_name, names, lengths, mirrored_tests, docstrings)


def plant(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize("check", CHECKS)
def test_growkit_is_sound(check: Callable[[Path], list[str]]) -> None:
    assert modules(ROOT)
    faults = check(ROOT)
    assert not faults, "\n".join(faults)


def test_the_tables_name_packages_that_exist() -> None:
    assert idle_entries(ROOT, [FLOORS, THIRD_PARTIES, NEVER, *NEVER.values()]) == []


def test_a_table_entry_without_modules_is_found(tmp_path: Path) -> None:
    plant(tmp_path, {"growkit/axes/a.py": "", "growkit/growth/g.py": ""})
    faults = ["nn: a table names it, and no module is there", "optim: a table names it, and no module is there"]
    assert idle_entries(tmp_path, [{"axes": 0, "nn": 1}, {"growth": {"optim"}}, {"optim"}]) == faults


@pytest.mark.parametrize("check", CHECKS)
def test_nothing_is_found_in_a_sound_tree(check: Callable[[Path], list[str]], tmp_path: Path) -> None:
    assert check(plant(tmp_path, SOUND)) == []


@pytest.mark.parametrize(("check", "files", "faults"), PLANTED)
def test_a_planted_fault_is_found(
    check: Callable[[Path], list[str]], files: dict[str, str], faults: list[str], tmp_path: Path
) -> None:
    assert check(plant(tmp_path, files)) == faults
