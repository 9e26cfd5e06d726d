"""A long stream: do memory, open files or the time per step grow? Writes results/endless.json.

The stream changes to another quadrant every 1,000 steps, so that the learner consolidates again and
again. The first tenth is excluded from the fit: caches fill up.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import nn

from taskfree import MAS, Hardest, Learner, Plateau
from taskfree._core import files
from taskfree.paper import cache
from taskfree.paper.streams import ball
from taskfree.paper.synthetic import experiment as synthetic
from taskfree.when import Decision


def resident() -> int:
    """The process's resident memory in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def open_files() -> int:
    """How many files the process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


class StoresEverything(Plateau):
    """A control: a trigger that stores all losses."""

    def update(self, loss: float) -> Decision | None:
        """Update the trigger and store the loss, 20 times."""
        self.all = (*getattr(self, "all", ()), [loss] * 20)
        return super().update(loss)


def slope(points: list[tuple[float, float]]) -> float:
    """The slope of the least-squares line."""
    x, y = (torch.tensor(column, dtype=torch.float64) for column in zip(*points, strict=True))
    x = x - x.mean()
    return float((x * (y - y.mean())).sum() / (x * x).sum())


def run(steps: int, every: int, trigger: type[Plateau] = Plateau) -> dict[str, Any]:
    """Learn `steps` time steps; measure memory and time every `every` steps."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    model = synthetic.network(generator)
    learner = Learner(
        model,
        torch.optim.SGD(model.parameters(), lr=0.05),
        loss=nn.CrossEntropyLoss(reduction="none"),
        when=trigger(window=5, mean=0.6, variance=0.1),
        which=Hardest(30),
        how=MAS(10),
        repeats=1,
    )
    quadrants = [list(ball.batches(*ball.quadrant(q, 4000, generator), 20)) for q in (1, 2, 3, 4)]
    memory, seconds, opened, consolidations, batch = [], [], set(), 0, []
    for step in range(steps):
        x, y = quadrants[step // 1000 % 4][step % 200]
        started = perf_counter()
        consolidations += learner.learn(x, y).consolidated
        batch.append(perf_counter() - started)
        if len(batch) == every:
            memory.append((step + 1, resident()))
            opened.add(open_files())
            seconds.append((step + 1, median(batch)))
            batch = []
    settled = len(memory) // 10
    third = len(seconds) // 3
    return {
        "steps": steps,
        "samples": 20 * steps,
        "open files": sorted(opened),
        "consolidations": consolidations,
        "bytes per 1,000 steps": round(1000 * slope(memory[settled:]), 1),
        "resident MiB, first and last": [
            round(size / 2**20, 1) for _, size in (memory[settled], memory[-1])
        ],
        "microseconds per step, first and last third": [
            round(1e6 * median(taken for _, taken in part), 1)
            for part in (seconds[settled:third], seconds[-third:])
        ],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--every", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=Path("results/endless.json"))
    options = parser.parse_args()
    result = {
        "command": f"python reliability/soak.py --steps {options.steps}",
        "versions": cache.versions(),
        **run(options.steps, options.every),
    }
    text = json.dumps(result, indent=2)
    print(text)  # noqa: T201
    options.out.parent.mkdir(parents=True, exist_ok=True)
    files.write_bytes(options.out, f"{text}\n".encode())
