"""The property tests with many more examples than CI tries, and with the code broken on purpose."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
TESTS = ("when", "which", "state", "checkpoint", "guards", "stateful")
RUN = ("-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "--hypothesis-show-statistics")


def run(factor: int, broken: str = "") -> dict[str, int]:
    """Try every property `factor` times as often as CI does; how many examples, how many failed."""
    tests = [str(HERE.parent / "tests" / f"test_{name}.py") for name in TESTS]
    plugin = ("-p", "sabotage") if broken else ()
    environment = {"TASKFREE_EXAMPLES": str(factor), "PYTHONPATH": str(HERE), "BROKEN": broken}
    done = subprocess.run(
        [sys.executable, *RUN, *plugin, *tests],
        env=os.environ | environment,
        cwd=HERE.parent,
        capture_output=True,
        text=True,
    )
    counts = [int(n) for n in re.findall(r"(\d+) passing, \d+ failing", done.stdout)]
    failed = re.search(r"(\d+) failed", done.stdout)
    if done.returncode not in (0, 1) or not counts:
        raise RuntimeError(done.stdout[-3000:] + done.stderr[-3000:])
    return {
        "properties": len(re.findall(r"Stopped because", done.stdout)),
        "examples": sum(counts),
        "failed tests": int(failed.group(1)) if failed else 0,
    }
