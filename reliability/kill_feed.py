"""Kill `taskfree learn` at random moments, run the same command again, and compare the end.

Each run is killed (SIGKILL) again and again until it has learned all of its file. Then all that it
keeps must be what a run keeps that was never killed: learner, statistics, metrics, events, history.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from subject import isolated

from taskfree import checkpoint
from taskfree.feed import learn
from taskfree.feed.stream import Read
from taskfree.state import pack

PARTS = ("setup", "inputs", "targets", "learner", "metric", "log", "read")
ROWS = 3000


def write(file: Path) -> None:
    """Rows with numbers, a category, gaps and a few that cannot be read; new classes come late."""
    chance = random.Random(0)
    with open(file, "w") as out:
        out.write("x,y,colour,label\n")
        for row in range(ROWS):
            x, y = chance.gauss(0, 1), chance.gauss(0, 1)
            label = f"class {int(x > 0) + 2 * int(y > 0) * int(row > ROWS // 2)}"
            shown = "oops" if chance.random() < 0.01 else f"{x:.4f}"
            out.write(f"{shown},{y:.4f},{chance.choice(['red', 'green', ''])},{label}\n")


def config(file: Path, folder: Path) -> learn.Config:
    """Small steps, kept often."""
    return learn.Config(
        str(file), folder, target="label", batch=16, save_rows=64, evaluate_rows=320
    )


def all_of(folder: Path) -> list[str]:
    """A digest of all that is kept."""
    digest = hashlib.sha256()
    for name, tensor in sorted(pack(checkpoint.peek(folder, *PARTS)).items()):
        digest.update(name.encode() + tensor.contiguous().numpy().tobytes())
    for name in ("events.jsonl", "history.jsonl", "losses.f32", "network.safetensors"):
        digest.update((folder / name).read_bytes())
    return [digest.hexdigest()]


def child(file: Path, folder: Path) -> None:
    """The command, told to be silent."""
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stderr.fileno())
    learn.run(config(file, folder))


def forgets_its_place() -> None:
    """A control: where the file was left is not kept."""
    Read.place = lambda *_: (0, 0)  # type: ignore[method-assign]


def run(
    kills: int, seed: int = 0, broken: Callable[[], None] = lambda: None, patience: float = 1.0
) -> dict[str, int]:
    """Kill so many times; count what was found."""
    torch.set_num_threads(1)
    chance = random.Random(seed)
    root = Path(tempfile.mkdtemp())
    write(root / "rows.csv")

    def whole() -> list[str]:
        child(root / "rows.csv", root / "whole")
        return all_of(root / "whole")

    expected = isolated(whole)
    counts = {"kills": 0, "inside a write": 0, "mismatches": 0, "lost": 0, "runs finished": 0}
    while counts["kills"] < kills or (root / "killed").exists():
        process = os.fork()
        if process == 0:
            code = 99
            try:
                broken()
                child(root / "rows.csv", root / "killed")
                code = 0
            except checkpoint.CheckpointError:
                code = 4
            finally:
                os._exit(code)
        if counts["kills"] < kills:
            time.sleep(chance.random() * patience)
            os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        if os.WIFSIGNALED(status):
            counts["kills"] += 1
            counts["inside a write"] += bool(list((root / "killed").glob("*.writing")))
            continue
        if os.WEXITSTATUS(status) == 99:
            raise RuntimeError("a child failed")
        if os.WEXITSTATUS(status):
            counts["lost"] += 1
        else:
            counts["runs finished"] += 1
            counts["mismatches"] += isolated(lambda: all_of(root / "killed")) != expected
        shutil.rmtree(root / "killed", ignore_errors=True)
    shutil.rmtree(root)
    return counts
