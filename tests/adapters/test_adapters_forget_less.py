"""Each example learns, through the real library, a stream that a plain network forgets.

As a program it writes what they print to results/adapters.json.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from taskfree.experiments import pool

ROOT = Path(__file__).parents[2]
BESIDE = Path(sys.prefix) / "avalanche"


def run(name):
    command = [ROOT / "examples" / f"{name}.py"]
    environment = {}
    if name == "with_avalanche":
        command.insert(0, ROOT / "benchmarks" / "avalanche_here.py")
        environment["PYTHONPATH"] = str(BESIDE)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *map(str, command)], capture_output=True, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {name: int(percent) for name, percent in re.findall(r"(.*): (\d+) % ", done.stdout)}


@pytest.mark.parametrize("name", ["with_river", "with_sklearn"])
def test_classes_that_do_not_come_back(name):
    found = run(name)
    plain = {name: value for name, value in found.items() if "taskfree" not in name}
    assert max(plain.values()) < 40, "nothing to gain: the plain network does not forget"
    assert found["taskfree"] > 65


@pytest.mark.parametrize("name", ["own_loop", "with_lightning", "with_avalanche", "with_gymnasium"])
def test_a_place_that_is_left(name):
    if name == "with_avalanche" and not BESIDE.is_dir():
        pytest.skip(f"Avalanche is not in {BESIDE}; make test puts it there")
    found = run(name)
    plain = found.pop("plain")
    assert plain < 80, "nothing to gain: the plain network does not forget"
    assert found
    assert min(found.values()) > plain + 10


if __name__ == "__main__":
    names = sorted(path.stem for path in (ROOT / "examples").glob("with_*.py"))
    results = {
        "command": "python tests/adapters/test_adapters_forget_less.py",
        "versions": pool.versions(),
        "percent": {name: run(name) for name in (*names, "own_loop")},
    }
    pool.write_json(ROOT / "results/adapters.json", results)
