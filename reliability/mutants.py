"""Change the core in every small way that mutmut knows: the tests must notice.

A mutant is a copy of the library with one small change: another comparison, another number, None in
place of a value. Some changes do not count: texts for people (a message, or a name that only a
message uses), types, which only the type checker reads, and code that only several processes run.
tests/_core/test_distributed.py compares that code with a single process, but in processes that
mutmut does not see.
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
CORE = (
    "when/trigger", "when/plateau", "when/relative", "when/settled", "when/schedule",
    "which/rows", "which/hardest", "which/recent", "which/reservoir",
    "how/mas", "how/importance/exact", "how/importance/general", "how/importance/norms",
    "learner", "_learner/objective", "_learner/state", "_core/finite", "_core/files",
    "_core/random_state", "_core/rollback", "_core/serialization",
    "checkpoint/format", "checkpoint/generations",
)  # fmt: skip
"""Modules, by their path in src/taskfree/."""
TESTS = (
    "when/test_plateau.py", "when/test_relative.py", "when/test_schedule.py",
    "when/test_settled.py", "which", "how", "checkpoint", "_core/test_files.py",
    "_core/test_finite.py", "_core/test_random_state.py", "_core/test_rollback.py",
    "_core/test_serialization.py", "test_learner.py", "test_on_bad.py", "test_bad_input.py",
    "test_checks.py", "observe/test_events.py",
)  # fmt: skip
"""Their tests, by their path in tests/."""
DESELECTED = (
    "checkpoint/test_generations.py::test_a_damaged_newest_generation_is_skipped_with_a_warning",
    "which/test_reservoir.py::test_reservoir_is_uniform_over_the_stream",
    "test_learner.py::test_a_compiled_model_learns_the_same_and_shares_its_state",
    "test_learner.py::test_the_state_does_not_grow_with_the_stream",
)
"""A test of the stack level of a warning, to which mutmut adds frames; and tests that take seconds,
for which every mutant that survives would wait."""
DISTRIBUTED = (
    r"dist\.|DistributedDataParallel|joint\.places|which\.whole|_float_buffers"
    r"|processes\.(stack|rank|size)"
)
"""Code that only several processes run."""
MUTATED = Path("mutants/src/taskfree")
UNTESTED, SKIPPED = 33, 34
"""Exit codes of mutmut: no test runs the function; the mutant was not tried."""


def run(
    mutmut: Path,
    core: tuple[str, ...] = CORE,
    tests: tuple[str, ...] = TESTS,
    folder: Path | None = None,
) -> dict[str, object]:
    """Counts of mutants by module, and the survivors. A folder of an earlier run is continued."""
    if folder is None:
        folder = _copied(core, tests)
        _mutmut(mutmut, folder, "taskfree._core.serialization.*")  # creates all, tries these
    _leave_out(folder / MUTATED, core)
    _mutmut(mutmut, folder)
    found = collect(folder / MUTATED, core)
    shutil.rmtree(folder)
    return found


def _settings(core: tuple[str, ...], tests: tuple[str, ...]) -> str:
    selected = [
        *(f"tests/{path}" for path in tests),
        *(f"--deselect=tests/{name}" for name in DESELECTED),
    ]
    return f"""
[tool.mutmut]
source_paths = ["src/"]
only_mutate = {[f"src/taskfree/{name}.py" for name in core]}
pytest_add_cli_args_test_selection = {selected}
pytest_add_cli_args = ["-n", "0", "-p", "no:cacheprovider"]
also_copy = ["tests", "pyproject.toml"]
"""


def _copied(core: tuple[str, ...], tests: tuple[str, ...]) -> Path:
    """A folder with everything that the tests need."""
    folder = Path(tempfile.mkdtemp(prefix="taskfree-mutants-"))
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, folder / name)
    settings = (ROOT / "pyproject.toml").read_text() + _settings(core, tests)
    (folder / "pyproject.toml").write_text(settings)
    return folder


def _mutmut(mutmut: Path, folder: Path, *names: str) -> None:
    """Try the mutants of these names, or all that have not been tried yet."""
    with (folder / "log").open("a") as log:
        subprocess.run(
            [mutmut, "run", "--max-children", "2", *names], cwd=folder, stdout=log, stderr=log,
            env={**os.environ, "PYTHONPATH": ""}, check=True,
        )  # fmt: skip


def _leave_out(folder: Path, core: tuple[str, ...]) -> None:
    """Mark what does not count as not tried: no test notices it, so all tests would run."""
    for name in core:
        file = folder / f"{name}.py.meta"
        meta = json.loads(file.read_text())
        codes = meta["exit_code_by_key"]
        for key, _, counts in _mutants(folder / f"{name}.py", codes):
            if not counts and codes[key] is None:
                codes[key] = SKIPPED
        file.write_text(json.dumps(meta))


def _mutants(file: Path, keys: Iterable[str]) -> Iterator[tuple[str, str, bool]]:
    """Every mutant of a module, what it changes, and whether it counts."""
    functions = _functions(file)
    for key in keys:
        own = key.rpartition(".")[2]
        before = functions[own.rpartition("__mutmut_")[0] + "__mutmut_orig"]
        difference = _difference(before, functions[own])
        text = _only_text(before, functions[own])
        yield key, difference, not text and not re.search(DISTRIBUTED, f"{own} {difference}")


def collect(folder: Path, core: tuple[str, ...] = CORE) -> dict[str, object]:
    """How many mutants each module has, how many were killed, and which survived."""
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
    """Whether two functions differ only in texts for people."""
    return _without_text(before) == _without_text(after)


def _without_text(function: ast.AST) -> str:
    tree = ast.parse(ast.unparse(function))
    tree.body[0].name = "f"  # type: ignore[attr-defined]
    return ast.dump(_Texts().visit(tree))


class _Texts(ast.NodeTransformer):
    """Removes sentences, the arguments of errors and warnings, and the types of variables."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """A string with a space in it is a sentence."""
        if isinstance(node.value, str) and " " in node.value.strip("X"):
            return ast.Constant("")
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """So is an f-string with a space in it."""
        texts = (part.value for part in node.values if isinstance(part, ast.Constant))
        return ast.Constant("") if any(" " in str(text) for text in texts) else node

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        """The type of an error counts; its message does not."""
        call = node.exc
        if isinstance(call, ast.Call):
            return ast.Raise(call.func, node.cause)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Removes hints, names for messages, and `strict` of zip."""
        self.generic_visit(node)
        texts = ("hint", "stacklevel", "strict", "name")
        node.keywords = [word for word in node.keywords if word.arg not in texts]
        function = ast.unparse(node.func)
        if function.startswith("validation.") or function == "batch.check":
            node.args = node.args[1:]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Types are for the type checker."""
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
