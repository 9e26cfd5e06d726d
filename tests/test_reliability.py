"""A small slice of every reliability check; `make reliability` runs all of it."""

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
def test_it_holds_and_its_controls_fail(tmp_path, check):
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
    ("when", "if mean < mean_threshold and variance", "if mean <= mean_threshold or variance"),
    ("which", "return priority.argsort(stable=True)", "return priority.argsort(descending=True)"),
    ("how", "value.lerp_(old, 1 - share)", "value.lerp_(old, share)"),
    ("checkpoint", "os.fsync(descriptor)", "None"),
    ("undo", "vars(part).update(before)", "vars(part).update({})"),
]


@pytest.mark.parametrize(("module", "code", "change"), CHANGES, ids=[name for name, *_ in CHANGES])
def test_small_changes_of_the_core_are_noticed(tmp_path, module, code, change):
    """A few mutants by hand: mutmut itself does not run beside this pytest."""
    shutil.copytree(ROOT / "src", tmp_path / "src")
    shutil.copytree(ROOT / "tests", tmp_path / "tests")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)

    def tests_pass():
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*command, f"tests/test_{module}.py"], cwd=tmp_path, capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
        )  # fmt: skip
        assert done.returncode in (0, 1), done.stdout + done.stderr
        return done.returncode == 0

    file = tmp_path / "src" / "taskfree" / f"{module}.py"
    before = file.read_text()
    assert before.count(code) >= 1
    file.write_text(before.replace(code, change))
    assert not tests_pass()
    file.write_text(before)
    if module == "undo":  # the control, once: it is the change that they notice
        assert tests_pass()
