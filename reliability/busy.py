"""The whole test suite on a busy machine: no test may depend on how fast it runs.

`busy.py` runs pytest twice beside four processes that do nothing but compute, and writes
results/busy.json.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any

from taskfree._core import files
from taskfree.paper import cache

ROOT = Path(__file__).parents[1]
BUSY = 4
RUNS = 2


def compute() -> None:
    """Keep one core busy for ever."""
    while True:
        sum(range(1000))


def run() -> dict[str, Any]:
    """Run the suite once; how it ended, in its own words."""
    started = perf_counter()
    command = [sys.executable, "-m", "pytest", "-n", "auto", "--dist", "loadscope", "-q"]
    ended = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, check=False)
    summary = re.sub(r" in .*", "", ended.stdout.strip().splitlines()[-1]).strip("= ")
    lines = ended.stdout.splitlines()
    return {
        "summary": summary,
        "passed": ended.returncode == 0,
        "failed": [line for line in lines if line.startswith(("FAILED", "ERROR"))],
        "minutes": round((perf_counter() - started) / 60, 1),
    }


def main() -> None:
    """Start the load, run the suite, write what came of it."""
    others = [get_context("fork").Process(target=compute, daemon=True) for _ in range(BUSY)]
    for process in others:
        process.start()
    try:
        runs = [run() for _ in range(RUNS)]
    finally:
        for process in others:
            process.kill()
    result = {
        "command": "python reliability/busy.py",
        "busy processes": BUSY,
        "cores": os.cpu_count(),
        "versions": cache.versions(),
        "runs": runs,
    }
    files.write_json(ROOT / "results/busy.json", result)
    sys.exit(not all(found["passed"] for found in runs))


if __name__ == "__main__":
    main()
