"""Avalanche's methods, each on a short stream, in a process of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
AVALANCHE = ROOT / ".venv" / "avalanche"
SCRIPT = """
import json, sys, torch
torch.set_num_threads(1)
from taskfree.paper.methods import peers
from taskfree.paper.methods.watching import Watcher
from taskfree.paper.streams import points
found = {}
for name, method in peers.PEERS.items():
    stream = points.quadrants(0, steps=30)
    watcher = Watcher(stream)
    setting = peers.GRIDS[name][0]
    found[name] = watcher.finish(method(stream, 200, 0, setting, watcher))
json.dump(found, sys.stdout)
"""


@pytest.mark.skipif(not AVALANCHE.exists(), reason="make test installs Avalanche there")
def test_every_peer_learns_and_replays_as_much_as_ours():
    environment = os.environ | {"PYTHONPATH": str(AVALANCHE)}
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=600
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    for name, measured in found.items():
        assert measured["running"] > 0.4, name
    # five gradient steps on 20 new and, but in the first time step, 40 replayed samples
    assert found["Avalanche ER"]["samples per step"] == pytest.approx(300, rel=0.02)
    assert found["Avalanche ER-ACE"]["samples per step"] == pytest.approx(300, rel=0.05)
