"""A small part of every reliability check; `make reliability` runs all of it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "check", ["kills", "learn", "calls", "files", "poison", "soak", "properties"]
)
def test_the_check_holds_and_its_controls_fail(tmp_path, check):
    out = tmp_path / "found.json"
    done = subprocess.run(
        [sys.executable, ROOT / "reliability/run.py", "--quick", check, "--out", out],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    row = json.loads(out.read_text())["results"][check]
    assert row["held"]
    assert row["controls failed"]
    assert row["controls"]


CHANGES = [
    ("when/plateau.py", "if mean < mean_threshold and variance",
     "if mean <= mean_threshold or variance", "when/test_plateau.py"),
    ("which/rows.py", "return priority.argsort(stable=True)",
     "return priority.argsort(descending=True)", "which/test_hardest.py"),
    ("how/mas.py", "value.lerp_(old, 1 - share)", "value.lerp_(old, share)", "how/test_mas.py"),
    ("_core/files.py", "os.fsync(descriptor)", "None", "_core/test_files.py"),
    ("_core/rollback.py", "vars(component).update(before)", "vars(component).update({})",
     "_core/test_rollback.py"),
]  # fmt: skip
"""File, code, its change, and the tests that must notice it."""


@pytest.mark.parametrize(
    ("module", "code", "change", "tests"), CHANGES, ids=[name for name, *_ in CHANGES]
)
def test_small_changes_of_the_core_are_noticed(tmp_path, module, code, change, tests):
    """A few mutants by hand: mutmut does not support this version of pytest."""
    shutil.copytree(ROOT / "src", tmp_path / "src")
    shutil.copytree(ROOT / "tests", tmp_path / "tests")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)

    def tests_pass():
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*command, f"tests/{tests}"], cwd=tmp_path, capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
        )  # fmt: skip
        assert done.returncode in (0, 1), done.stdout + done.stderr
        return done.returncode == 0

    file = tmp_path / "src" / "taskfree" / module
    before = file.read_text()
    assert before.count(code) == 1
    file.write_text(before.replace(code, change))
    assert not tests_pass()
    file.write_text(before)
    if "rollback" in module:  # a control, once: without the change they pass
        assert tests_pass()


def test_the_lists_of_mutated_modules_and_their_tests_name_files_that_exist(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "reliability")
    import mutants
    import properties

    for name in mutants.CORE:
        assert (ROOT / "src/taskfree" / f"{name}.py").is_file()
    for name in (*mutants.TESTS, *properties.PROPERTIES):
        assert (ROOT / "tests" / name).exists()
    for name in mutants.DESELECTED:
        file, _, test = name.partition("::")
        assert f"def {test}(" in (ROOT / "tests" / file).read_text()
