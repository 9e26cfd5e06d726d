"""How the default's teacher was chosen, on data that is not reported.

The settings of `Teacher` on `part=1` of the streams of `taskfree reproduce methods`, beside plain
replay. Chosen is the one whose running score is more than 2 points below that of plain replay on
the fewest streams and memories and, of those, the one with the highest mean final score. It writes
results/teacher.json. Half an hour on two cores.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from taskfree import MAS, Learner, Reservoir, Teacher
from taskfree.paper import cache, publish, runner
from taskfree.paper.methods.watching import Watcher
from taskfree.paper.streams import STREAMS


class Constant(Teacher):
    """A teacher that always holds equally hard."""

    firmness = 1.0


SETTINGS: dict[str, Callable[[], Teacher] | None] = {
    "replay": None,
    "one memory, held equally hard": lambda: Constant(0.25, 0.99, 0.99),
    "held equally hard": lambda: Constant(0.1, 0.998, 0.99),
    "as hard as learned by heart": lambda: Teacher(0.1, 0.998, 0.99),
    "softer": lambda: Teacher(0.05, 0.998, 0.99),
    "harder": lambda: Teacher(0.2, 0.998, 0.99),
    "slower weights": lambda: Teacher(0.1, 0.998, 0.995),
    "slower": lambda: Teacher(0.1, 0.999, 0.995),
}
"""The teachers by name."""
FILE = Path("results/teacher.json")


@dataclass(frozen=True)
class Job:
    """A setting on a stream with a memory and a seed."""

    setting: str
    stream: str
    memory: int
    seed: int


def run_one(job: Job) -> dict[str, Any]:
    """Learn the stream; the score at the end, and while learning."""
    stream = STREAMS[job.stream](job.seed, 1)
    torch.manual_seed(job.seed)
    watcher = Watcher(stream)
    optimizer = torch.optim.SGD(stream.model.parameters(), lr=stream.lr)
    make = SETTINGS[job.setting]
    parts = [make(), MAS(0.01, penalty="relative", cover=200)] if make else None
    learner = Learner(
        stream.model, optimizer, loss=stream.loss, repeats=stream.repeats, how=parts,
        which=Reservoir(job.memory, seed=job.seed, balanced="auto" if parts else False),
    )  # fmt: skip
    for step, (x, y) in enumerate(stream.batches):
        watcher.before(step, learner.predict)
        learner.learn(x, y)
    found = watcher.finish(learner.predict)
    return {**vars(job), "final": found["final"], "running": found["running"]}


def main() -> None:
    """Run every setting and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--memories", type=int, nargs="+", default=[30, 500])
    parser.add_argument("--workers", type=int, default=None)
    options = parser.parse_args()
    jobs = [
        Job(setting, stream, memory, seed)
        for memory in options.memories
        for setting in SETTINGS
        for stream in STREAMS
        for seed in range(options.seeds)
    ]
    runs = runner.run_all(run_one, jobs, workers=options.workers, describe=lambda job: job.setting)
    rows = [
        {"setting": setting, "memory": memory}
        | {what: round(mean(float(run[what]) for run in own), 4) for what in ("final", "running")}
        for memory in options.memories
        for setting in SETTINGS
        if (own := [r for r in runs if (r["setting"], r["memory"]) == (setting, memory)])
    ]
    settings = {
        name: {key: getattr(own, key) for key in ("strength", "outputs", "weights")}
        for name, make in SETTINGS.items()
        if make and (own := make())
    }
    content = {
        "command": f"python benchmarks/teacher.py --seeds {options.seeds}",
        "versions": cache.versions(), "settings": settings, "rows": rows, "runs": runs,
    }  # fmt: skip
    publish.write_results(FILE, content)


if __name__ == "__main__":
    main()
