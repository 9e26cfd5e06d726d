"""A small slice of every reliability check; `make reliability` runs all of it."""

import json
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
