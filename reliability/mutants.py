"""Change the core in every small way that mutmut knows: the tests must notice.

A mutant is a copy of the library with one small change: another comparison, another number, a
statement's value None. Texts for people are not code: a change inside a message, a name of a
keyword in it, or a type's name for the checker is not counted. Nor is what only several processes
do: tests/test_ranks.py holds that against one process, in processes that mutmut does not see.
"""

from __future__ import annotations

import ast
import difflib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
CORE = ("when", "which", "how", "importance", "learner", "guards", "checkpoint", "state", "undo")
TESTS = (
    "when", "which", "how", "importance", "learner", "guards", "checkpoint", "crafted", "state",
    "undo", "bad_input", "checks", "events",
)  # fmt: skip
SLOW = (
    "which.py::test_reservoir_is_uniform_over_the_stream",
    "learner.py::test_a_compiled_model_learns_the_same_and_shares_its_state",
    "learner.py::test_nothing_grows_with_the_stream",
)
"""Tests that take seconds: every mutant that lives would wait for them."""
RANKS = r"_ranks|_written|dist\.|joint\.places|join_all|which\.whole"
MUTATED = Path("mutants/src/taskfree")
UNTESTED, SKIPPED = 33, 34
"""How mutmut says that no test runs a function, and that a mutant was not tried."""


def run(
    mutmut: Path,
    core: tuple[str, ...] = CORE,
    tests: tuple[str, ...] = TESTS,
    folder: Path | None = None,
) -> dict[str, object]:
    """Counts of mutants by module, and the survivors; in a folder of before it goes on there."""
    if folder is None:
        folder = _copied(core, tests)
        _mutmut(mutmut, folder, "taskfree.state.*")  # makes all mutants, and tries these
    _leave_out(folder / MUTATED, core)
    _mutmut(mutmut, folder)
    found = collect(folder / MUTATED, core)
    shutil.rmtree(folder)
    return found


def _settings(core: tuple[str, ...], tests: tuple[str, ...]) -> str:
    selected = [
        *(f"tests/test_{name}.py" for name in tests),
        *(f"--deselect=tests/test_{name}" for name in SLOW),
    ]
    return f"""
[tool.mutmut]
source_paths = ["src/"]
only_mutate = {[f"src/taskfree/{name}.py" for name in core]}
pytest_add_cli_args_test_selection = {selected}
pytest_add_cli_args = ["-n", "0", "-p", "no:cacheprovider"]
also_copy = ["tests", "README.md", "pyproject.toml", "docs", "results", "CHANGELOG.md"]
"""


def _copied(core: tuple[str, ...], tests: tuple[str, ...]) -> Path:
    """A folder with all that the tests need."""
    folder = Path(tempfile.mkdtemp(prefix="taskfree-mutants-"))
    for name in ("src", "tests", "docs", "results"):
        shutil.copytree(ROOT / name, folder / name)
    for name in ("README.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, folder)
    settings = (ROOT / "pyproject.toml").read_text() + _settings(core, tests)
    (folder / "pyproject.toml").write_text(settings)
    return folder


def _mutmut(mutmut: Path, folder: Path, *names: str) -> None:
    """Try the mutants of these names, or all that have not been tried."""
    with open(folder / "log", "a") as log:
        subprocess.run(
            [mutmut, "run", "--max-children", "2", *names], cwd=folder, stdout=log, stderr=log,
            env={**os.environ, "PYTHONPATH": ""}, check=True,
        )  # fmt: skip


def _leave_out(folder: Path, core: tuple[str, ...]) -> None:
    """Have mutmut not try what is not counted: no test can notice it, so all would be run."""
    for name in core:
        file = folder / f"{name}.py.meta"
        said = json.loads(file.read_text())
        for key, _, counts in _mutants(folder / f"{name}.py", said["exit_code_by_key"]):
            if not counts and said["exit_code_by_key"][key] is None:
                said["exit_code_by_key"][key] = SKIPPED
        file.write_text(json.dumps(said))


def _mutants(file: Path, keys: Iterable[str]) -> Iterator[tuple[str, str, bool]]:
    """Every mutant of a module, what it changes, and whether it counts."""
    functions = _functions(file)
    for key in keys:
        own = key.rpartition(".")[2]
        before = functions[own.rpartition("__mutmut_")[0] + "__mutmut_orig"]
        difference = _difference(before, functions[own])
        text = _only_text(before, functions[own])
        yield key, difference, not text and not re.search(RANKS, f"{own} {difference}")


def collect(folder: Path, core: tuple[str, ...] = CORE) -> dict[str, object]:
    """What became of every mutant."""
    modules: dict[str, dict[str, int]] = {}
    survivors = []
    for name in core:
        codes = json.loads((folder / f"{name}.py.meta").read_text())["exit_code_by_key"]
        counts = modules[name] = {"mutants": 0, "killed": 0, "not counted": 0}
        for key, difference, counted in _mutants(folder / f"{name}.py", codes):
            if not counted:
                counts["not counted"] += 1
                continue
            lives = codes[key] in (0, None, UNTESTED, SKIPPED)
            counts["mutants"] += 1
            counts["killed"] += not lives
            if lives:
                survivors.append(f"{key}: {difference}")
    total, killed = (sum(m[what] for m in modules.values()) for what in ("mutants", "killed"))
    return {
        "mutants": total, "killed": killed, "percent": round(100 * killed / total, 1),
        "modules": modules, "survivors": survivors,
    }  # fmt: skip


def _functions(file: Path) -> dict[str, ast.AST]:
    tree = ast.parse(file.read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name: node for node in ast.walk(tree) if isinstance(node, kinds)}


def _only_text(before: ast.AST, after: ast.AST) -> bool:
    """Whether two functions differ in texts for people only."""
    return _without_text(before) == _without_text(after)


def _without_text(function: ast.AST) -> str:
    tree = ast.parse(ast.unparse(function))
    tree.body[0].name = "f"  # type: ignore[attr-defined]
    return ast.dump(_Texts().visit(tree))


class _Texts(ast.NodeTransformer):
    """Takes out sentences, what is raised or warned with, and the types of variables."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """A text with a blank in it is a sentence."""
        if isinstance(node.value, str) and " " in node.value.strip("X"):
            return ast.Constant("")
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """So is a text with numbers in it."""
        texts = (part.value for part in node.values if isinstance(part, ast.Constant))
        return ast.Constant("") if any(" " in str(text) for text in texts) else node

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        """Which error it is counts; its words do not."""
        call = node.exc
        if isinstance(call, ast.Call):
            return ast.Raise(call.func, node.cause)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Hints, the names that a check of arguments tells, and checks of lengths while zipping."""
        self.generic_visit(node)
        told = ("hint", "stacklevel", "strict", "name")
        node.keywords = [word for word in node.keywords if word.arg not in told]
        if (
            ast.unparse(node.func).startswith("arguments.")
            or ast.unparse(node.func) == "batch.check"
        ):
            node.args = node.args[1:]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Types are for the checker."""
        self.generic_visit(node)
        node.annotation = ast.Constant("")
        return node


def _difference(before: ast.AST, after: ast.AST) -> str:
    texts = [ast.unparse(node).splitlines()[1:] for node in (before, after)]
    lines = difflib.unified_diff(*texts, lineterm="", n=0)
    changed = [
        re.sub(r"\s+", " ", line) for line in lines if line[:1] in "+-" and line[1:2] != line[:1]
    ]
    return " ".join(changed[:4])
