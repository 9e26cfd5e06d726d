"""Real tables in one pass: `taskfree learn` with nothing set, and what people would use instead.

Every model sees the same rows in the same order and predicts each before it learns it. Runs that
the results file has already are not repeated.

    ELECTRICITY=elec.csv python benchmarks/tables.py
"""

from __future__ import annotations

import argparse
import math
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import Any

import table_peers as peers
import table_streams as streams
import torch

from taskfree._core import files
from taskfree.cli import learn
from taskfree.paper import cache, publish, runner
from taskfree.paper.statistics import mean_and_spread

OURS = "taskfree learn"
SIMPLE = ("majority or mean", "same as last", "river: linear")
"""Never worse than the best of these is the promise."""


@dataclass(frozen=True)
class Job:
    """One model on one stream with one seed."""

    stream: str
    model: str
    seed: int


def run_one(job: Job) -> dict[str, Any]:
    """Take one pass over a stream."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    stream = streams.load(job.stream)
    started = perf_counter()
    found = _ours(stream, job.seed) if job.model == OURS else _peer(stream, job)
    seconds = perf_counter() - started
    return {
        "stream": job.stream, "model": job.model, "seed": job.seed, "rows": len(stream.rows),
        **found, "seconds": round(seconds, 1),
    }  # fmt: skip


def _is_classes(stream: streams.Stream) -> bool:
    """As `taskfree learn` decides it: names, or at most 20 different integers."""
    column = stream.rows[stream.target]
    if column.dtype == bool or not str(column.dtype).startswith(("int", "float")):
        return True
    first = column[:200]
    return bool(first.nunique() <= 20 and (first % 1 == 0).all())


def _ours(stream: streams.Stream, seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "table.csv"
        streams.write(stream, file)
        command = learn.Learn(
            source=str(file), state=Path(folder) / "state", target=stream.target, seed=seed
        )
        session = learn.run(command)
        metric = session.metric
        scores = session.model.score_by_expert
        classes = session.schema.task == "classification"
    return {
        "score": round(metric.mean, 6),
        "balanced accuracy": round(metric.balanced_accuracy, 6) if classes else None,
        "experts": {name: round(value, 6) for name, value in scores.items()},
        "trust": {name: round(value, 3) for name, value in session.model.trust.items()},
    }


def _peer(stream: streams.Stream, job: Job) -> dict[str, Any]:
    is_classes = _is_classes(stream)
    classes = sorted(set(stream.rows[stream.target])) if is_classes else []
    peer = peers.make(job.model, classes, job.seed)
    score, count = 0.0, 0
    by_class: dict[Any, list[int]] = {}
    for row, target in peers.rows(stream):
        answer = peer.predict(row)
        peer.learn(row, target)
        count += 1
        if is_classes:
            right = answer is not None and answer == target
            seen = by_class.setdefault(target, [0, 0])
            seen[0] += right
            seen[1] += 1
            score += right
        else:
            score += abs(answer - target) if math.isfinite(answer) else abs(target)
    balanced = mean(right / all_ for right, all_ in by_class.values()) if is_classes else None
    return {
        "score": round(score / count, 6),
        "balanced accuracy": None if balanced is None else round(balanced, 6),
    }


def summary(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By stream and model: the mean and standard deviation over the seeds, and the rank."""
    rows = []
    for stream in streams.STREAMS:
        found = {}
        for model in (OURS, *peers.PEERS):
            own = [r for r in runs if (r["stream"], r["model"]) == (stream, model)]
            if own:
                found[model] = {
                    "stream": stream, "model": model, "rows": own[0]["rows"],
                    "seen": stream in streams.SEEN,
                    "accuracy" if own[0]["balanced accuracy"] is not None else "error":
                        mean_and_spread([one["score"] for one in own]),
                    "seeds": len(own),
                    "rows per second": round(own[0]["rows"] / max(0.1, own[0]["seconds"])),
                }  # fmt: skip
        order = sorted(found, key=lambda m: _loss(found[m]))
        rows += [{**row, "rank": 1 + order.index(model)} for model, row in found.items()]
    return rows


def _loss(row: dict[str, Any]) -> float:
    return float(-row["accuracy"][0] if "accuracy" in row else row["error"][0])


def main() -> None:
    """Run what is missing and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--streams", nargs="+", default=list(streams.STREAMS))
    parser.add_argument("--models", nargs="+", default=[OURS, *peers.PEERS])
    parser.add_argument("--workers", type=int)
    parser.add_argument("--again", action="store_true", help="repeat our own runs")
    parser.add_argument("--out", type=Path, default=Path("results/tables.json"))
    options = parser.parse_args()
    before = (files.read_json(options.out) or {}).get("runs", [])
    done = {
        (one["stream"], one["model"], one["seed"]): one
        for one in before
        if not (options.again and one["model"] == OURS and one["stream"] in options.streams)
    }
    jobs = [
        Job(stream, model, seed)
        for model in options.models
        for stream in options.streams
        for seed in range(options.seeds if model == OURS or model in peers.SEEDED else 1)
    ]
    missing = [job for job in jobs if (job.stream, job.model, job.seed) not in done]
    found = runner.run_all(
        run_one, missing, workers=options.workers, describe=lambda j: f"{j.model}, {j.stream}"
    )
    runs = [*done.values(), *found]
    publish.write_results(
        options.out,
        {
            "command": f"python benchmarks/tables.py --seeds {options.seeds}",
            "versions": cache.versions(), "summary": summary(runs), "runs": runs,
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
