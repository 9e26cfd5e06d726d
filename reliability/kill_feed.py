"""Kill `taskfree learn` at random moments, run the same command again, and compare the end.

Each run is killed (SIGKILL) again and again until it has learned its whole file. Then everything in
its folder must equal that of a run that was never killed: learner, statistics, metrics, events,
history.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from killer import Killer
from subject import isolated

from taskfree import checkpoint
from taskfree._core.serialization import pack
from taskfree.cli import learn
from taskfree.tabular.progress import Progress
from taskfree.tabular.sources import START

PARTS = ("setup", "inputs", "targets", "learner", "model", "metric", "log", "read")
LOST = 4


def write(file: Path, rows: int) -> None:
    """Rows with numbers, a category, gaps and some unreadable ones; new classes appear late."""
    draw = random.Random(0)
    with file.open("w") as out:
        out.write("x,y,colour,label\n")
        for row in range(rows):
            x, y = draw.gauss(0, 1), draw.gauss(0, 1)
            label = f"class {int(x > 0) + 2 * int(y > 0) * int(row > rows // 2)}"
            shown = "oops" if draw.random() < 0.01 else f"{x:.4f}"
            out.write(f"{shown},{y:.4f},{draw.choice(['red', 'green', ''])},{label}\n")


def learn_all(file: Path, folder: Path) -> int:
    """The command, silent, with small steps and frequent saves."""
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stderr.fileno())
    command = learn.Learn(
        source=str(file), state=folder, target="label",
        batch_size=8, save_rows=64, evaluate_rows=320,
    )  # fmt: skip
    try:
        learn.run(command)
    except checkpoint.CheckpointError:
        return LOST
    return 0


def digest(folder: Path) -> str:
    """A digest of everything in the folder."""
    found = hashlib.sha256()
    for name, tensor in sorted(pack(checkpoint.peek(folder, *PARTS)).items()):
        found.update(name.encode() + tensor.contiguous().numpy().tobytes())
    for name in ("events.jsonl", "history.jsonl", "losses.f32", "network.safetensors"):
        found.update((folder / name).read_bytes())
    return found.hexdigest()


def forget_position() -> None:
    """A control: where to continue the file is not saved."""
    Progress.position = lambda *_: START  # type: ignore[method-assign]


def run(
    kills: int,
    rows: int = 3000,
    seed: int = 0,
    sabotage: Callable[[], None] = lambda: None,
    by_calls: bool = False,
) -> dict[str, int]:
    """Kill this many times; return counts of what was found."""
    root = Path(tempfile.mkdtemp(prefix="taskfree-kill-"))
    file, folder, killer = root / "rows.csv", root / "killed", Killer(seed, by_calls)
    write(file, rows)
    killer.measure(lambda: learn_all(file, root / "whole"))
    expected = isolated(lambda: digest(root / "whole"))

    def again() -> int:
        sabotage()
        return learn_all(file, folder)

    counts = {"kills": 0, "inside a write": 0, "mismatches": 0, "lost": 0, "runs finished": 0}
    while counts["kills"] < kills or folder.exists():
        status = killer.attempt(again, kill=counts["kills"] < kills)
        if status is None:
            counts["kills"] += 1
            counts["inside a write"] += any(folder.glob("*.writing*"))
            continue
        if status == LOST:
            counts["lost"] += 1
        else:
            counts["runs finished"] += 1
            counts["mismatches"] += isolated(lambda: digest(folder)) != expected
        shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(root)
    return counts
