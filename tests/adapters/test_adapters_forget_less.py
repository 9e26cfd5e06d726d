"""Each example learns, through the real library, a stream that a plain network forgets."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*command, **environment):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *map(str, command)], capture_output=True, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {name: int(percent) for name, percent in re.findall(r"(.*): (\d+) % ", done.stdout)}


@pytest.mark.parametrize("name", ["with_river", "with_sklearn"])
def test_classes_that_do_not_come_back(name):
    found = run(ROOT / "examples" / f"{name}.py")
    plain = {name: value for name, value in found.items() if "taskfree" not in name}
    assert max(plain.values()) < 40, "nothing to gain: the plain network does not forget"
    assert found["taskfree"] > 65


@pytest.mark.parametrize("name", ["own_loop", "with_lightning", "with_avalanche"])
def test_a_place_that_is_left(name):
    script = ROOT / "examples" / f"{name}.py"
    if name == "with_avalanche":
        beside = Path(sys.prefix) / "avalanche"
        if not beside.is_dir():
            pytest.skip(f"Avalanche is not in {beside}; make test puts it there")
        found = run(ROOT / "benchmarks" / "avalanche_here.py", script, PYTHONPATH=str(beside))
    else:
        found = run(script)
    plain = found.pop("plain")
    assert plain < 80, "nothing to gain: the plain network does not forget"
    assert found
    assert min(found.values()) > plain + 10
