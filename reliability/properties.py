"""Tests run with many more examples than CI tries, and with the library broken on purpose."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
PROPERTIES = ("when", "which", "state", "checkpoint", "guards", "stateful")


def outcome(names: Sequence[str], broken: str = "", factor: int = 1) -> dict[str, int]:
    """Run the tests of these names; how many passed and failed, and on how many examples."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider"]
    command += ["--hypothesis-show-statistics", *(["-p", "sabotage"] if broken else [])]
    done = subprocess.run(
        [*command, *(str(HERE.parent / "tests" / f"test_{name}.py") for name in names)],
        env={
            **os.environ,
            "TASKFREE_EXAMPLES": str(factor),
            "PYTHONPATH": str(HERE),
            "BROKEN": broken,
        },
        cwd=HERE.parent,
        capture_output=True,
        text=True,
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stdout[-3000:] + done.stderr[-3000:])
    passed, failed = (re.search(rf"(\d+) {word}", done.stdout) for word in ("passed", "failed"))
    return {
        "passed": int(passed[1]) if passed else 0,
        "failed": int(failed[1]) if failed else 0,
        "examples": sum(map(int, re.findall(r"(\d+) passing, \d+ failing", done.stdout))),
    }


def run(names: Sequence[str], factor: int) -> dict[str, int]:
    """Try every property of these tests `factor` times as often as CI does."""
    found = outcome(names, factor=factor)
    return {"failed": found["failed"], "examples": found["examples"]}
