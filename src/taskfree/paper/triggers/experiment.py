"""Study of triggers and strengths: does the default work on streams it was not tuned for?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import Any

import torch
from rich.console import Console
from river import drift

from taskfree._core import validation
from taskfree.defaults import STRENGTH
from taskfree.how import MAS
from taskfree.learner import Learner
from taskfree.paper import runner, statistics
from taskfree.paper.publish import publish
from taskfree.paper.streams import STREAMS, STUDY, fashion
from taskfree.paper.streams.changing import ChangingStream
from taskfree.paper.triggers import figures
from taskfree.when import At, Every, Plateau, RelativePlateau, Trigger
from taskfree.when.drift import Drift
from taskfree.which import Hardest

EVERY = 25
"""Steps between evaluations."""
CAPACITY = 30
"""Samples in the paper's buffer, which every setting has."""


@dataclass(frozen=True)
class TriggersConfig:
    """Eight different streams, learned with every trigger and many strengths.

    All settings have the paper's buffer of the 30 hardest samples and the relative penalty. The
    default trigger has nothing to tune. The thresholds of the paper's Plateau are tuned on
    other data of the same stream. The oracle knows where the stream changes.
    """

    out: Path = Path("results/triggers")
    """where results.json, the figures and report.html go"""
    seeds: int = 6
    """seeds per setting"""
    tuning_seeds: int = 3
    """seeds per pair of thresholds, on the part of the data for tuning"""
    streams: tuple[str, ...] = STUDY
    """streams to learn"""
    means: tuple[float, ...] = (0.1, 0.2, 0.4, 0.8, 1.6)
    """thresholds of Plateau on the mean, for tuning"""
    variances: tuple[float, ...] = (0.02, 0.2)
    """thresholds of Plateau on the variance, for tuning"""
    strengths: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    """strengths to compare with the default"""
    workers: int | None = None
    """processes; one per core by default"""

    def __post_init__(self) -> None:
        for name in ("seeds", "tuning_seeds"):
            validation.integer(name, getattr(self, name), least=1)
        for name in self.streams:
            validation.choice("streams", name, STUDY)
        for value in self.means:
            validation.number("means", value)
        for value in self.variances:
            validation.number("variances", value, above=0)
        for value in self.strengths:
            MAS(value)


@dataclass(frozen=True)
class TriggerJob:
    """A setting on a stream with a seed."""

    stream: str
    setting: str
    seed: int
    part: int = 0
    thresholds: tuple[float, float] | None = None
    strength: float | None = None


DEFAULT, ONLINE, TUNED, ORACLE = "default", "online", "Plateau, tuned", "oracle"

TRIGGERS: dict[str, Callable[[ChangingStream], Trigger]] = {
    ORACLE: lambda stream: At([*stream.changes, len(stream.batches)]),
    "RelativePlateau": lambda _: RelativePlateau(),
    "ADWIN": lambda _: Drift(drift.ADWIN()),  # type: ignore[no-untyped-call]  # river
    "Page-Hinkley": lambda _: Drift(drift.PageHinkley()),
    "KSWIN": lambda _: Drift(drift.KSWIN(seed=0)),
    "every 100": lambda _: Every(100),
}
"""The triggers to compare with. The oracle consolidates at the last step before a change."""

SETTINGS = (ONLINE, DEFAULT, TUNED, *TRIGGERS)


def run_one(job: TriggerJob) -> dict[str, Any]:
    """Learn a stream."""
    started = perf_counter()
    stream = STREAMS[job.stream](job.seed, job.part)
    learner = _learner(stream, job)
    reports, overall = [], list[float]()
    best: dict[int, float] = {}
    for step, (x, y) in enumerate(stream.batches, 1):
        reports.append(learner.learn(x, y))
        if step % EVERY == 0:
            known = sorted(set(stream.environments[:step]))
            scores = [_score(stream, learner, environment) for environment in known]
            best |= {e: max(best.get(e, 0.0), s) for e, s in zip(known, scores, strict=True)}
            overall.append(mean(scores))
    final = [_score(stream, learner, environment) for environment in range(len(stream.tests))]
    return {
        "stream": job.stream, "setting": job.setting, "seed": job.seed, "part": job.part,
        "thresholds": job.thresholds, "strength": job.strength,
        "final": round(mean(final), 4), "average": round(mean(overall), 4),
        "forgetting": round(mean(max(0.0, best[e] - s) for e, s in enumerate(final)), 4),
        "environments": [round(score, 4) for score in final],
        "consolidations": [r.step for r in reports if r.consolidated],
        "peaks": [r.step for r in reports if r.peak],
        "changes": stream.changes, "steps": len(stream.batches),
        "seconds": round(perf_counter() - started, 2),
    }  # fmt: skip


def _learner(stream: ChangingStream, job: TriggerJob) -> Learner:
    """All settings start from the same weights and see the same batches."""
    strength = STRENGTH if job.strength is None else job.strength
    components: dict[str, Any] = {"how": MAS(strength, penalty="relative")}
    if job.setting == ONLINE:
        components["how"] = None
    elif job.thresholds is not None:
        mean_threshold, variance = job.thresholds
        components["when"] = Plateau(window=5, mean=mean_threshold, variance=variance)
    elif job.setting in TRIGGERS:
        components["when"] = TRIGGERS[job.setting](stream)
    return Learner(
        stream.model,
        torch.optim.SGD(stream.model.parameters(), lr=stream.lr),
        loss=stream.loss,
        which=Hardest(CAPACITY),
        repeats=stream.repeats,
        **components,
    )


def _score(stream: ChangingStream, learner: Learner, environment: int) -> float:
    x, y = stream.tests[environment]
    return stream.score(learner.predict(x), y)


def run(config: TriggersConfig) -> dict[str, Any]:
    """Tune the Plateau, run everything, and publish the results."""
    if any("images" in name for name in config.streams):
        fashion.find()
    config.out.mkdir(parents=True, exist_ok=True)  # fails early if it cannot
    grid = list(product(config.means, config.variances))
    tuning = _all(
        [
            TriggerJob(name, TUNED, seed, part=1, thresholds=pair)
            for name in config.streams
            for pair in grid
            for seed in range(config.tuning_seeds)
        ],
        config,
    )
    tuned = {name: _best(tuning, name, grid) for name in config.streams}
    jobs = [
        TriggerJob(name, setting, seed, thresholds=tuned[name] if setting == TUNED else None)
        for name in config.streams
        for setting in SETTINGS
        for seed in range(config.seeds)
    ]
    jobs += [
        TriggerJob(name, f"strength {strength:g}", seed, strength=strength)
        for name in config.streams
        for strength in config.strengths
        for seed in range(config.seeds)
    ]
    runs = _all(jobs, config)
    rows = summary(config, runs)
    drawn = {
        "triggers.png": figures.scores(rows, SETTINGS),
        "timeline.png": figures.timeline(runs, SETTINGS[1:]),
        "strengths.png": figures.strengths(rows, config.strengths),
    }
    results = publish(
        "triggers",
        config,
        title="Triggers and strengths: nothing to tune",
        found={
            "tuned": {name: list(pair) for name, pair in tuned.items()},
            "aims": aims(config, runs),
            "summary": rows,
            "runs": runs,
            "tuning": [
                {key: one[key] for key in ("stream", "seed", "thresholds", "final")}
                for one in tuning
            ],
        },
        tables={
            f"{what}, mean over {config.seeds} seeds": table(rows, what)
            for what in ("final", "average", "forgetting", "consolidations")
        },
        figures={name: (figure, figures.CAPTIONS[name]) for name, figure in drawn.items()},
        details=("tuned", "aims"),
    )
    for name, value in results["aims"].items():
        Console().print(f"{name}: {value}")
    return results


def _all(jobs: list[TriggerJob], config: TriggersConfig) -> list[dict[str, Any]]:
    return runner.run_all(
        run_one, jobs, workers=config.workers, describe=lambda job: f"{job.stream}, {job.setting}"
    )


def _best(
    tuning: list[dict[str, Any]], stream: str, grid: list[tuple[float, float]]
) -> tuple[float, float]:
    """The thresholds with the best final score on the part of the data for tuning."""

    def score(pair: tuple[float, float]) -> float:
        return mean(
            float(one["final"])
            for one in tuning
            if one["stream"] == stream and tuple(one["thresholds"]) == pair
        )

    return max(grid, key=score)


def summary(config: TriggersConfig, runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean and standard error over the seeds, by stream and setting."""
    rows = []
    names = [*SETTINGS, *(f"strength {strength:g}" for strength in config.strengths)]
    for stream in config.streams:
        for setting in names:
            chosen = [o for o in runs if (o["stream"], o["setting"]) == (stream, setting)]
            row: dict[str, Any] = {"stream": stream, "setting": setting}
            for what in ("final", "average", "forgetting"):
                row[what] = statistics.mean_and_spread([one[what] for one in chosen], "error")
            counts = [len(one["consolidations"]) for one in chosen]
            row["consolidations"] = statistics.mean_and_spread(counts, "error")
            rows.append(row)
    return rows


def aims(config: TriggersConfig, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The measures that the default is meant to reach."""
    rows = {(row["stream"], row["setting"]): row for row in summary(config, runs)}

    def final(stream: str, setting: str) -> float:
        return float(rows[stream, setting]["final"][0])

    gains = {
        setting: mean(final(name, setting) - final(name, ONLINE) for name in config.streams)
        for setting in SETTINGS[1:]
    }
    below = {
        name: round(final(name, ONLINE) - final(name, DEFAULT), 4)
        for name in config.streams
        if final(name, DEFAULT) < final(name, ONLINE) - rows[name, ONLINE]["final"][1]
    }
    apart = {
        name: round(
            max(final(name, f"strength {strength:g}") for strength in config.strengths)
            - final(name, DEFAULT),
            4,
        )
        for name in config.streams
    }
    default = [one for one in runs if one["setting"] == DEFAULT]
    stretches = [count for one in default for count in _between(one)]
    return {
        "gain over online, mean of all streams": {k: round(v, 4) for k, v in gains.items()},
        "of the tuned Plateau's gain, the default has": round(gains[DEFAULT] / gains[TUNED], 3),
        "streams where the default is below online by more than a standard error": below,
        "stretches between changes": len(stretches),
        "of them without a consolidation": sum(count == 0 for count in stretches),
        "of them with more than 3": sum(count > 3 for count in stretches),
        "points that the best strength of the grid is better than the default's": apart,
        "streams where that is at most 2 points": sum(value <= 0.02 for value in apart.values()),
    }


def _between(one: dict[str, Any]) -> list[int]:
    """The number of consolidations in each stretch of at least 100 steps between changes."""
    ends = [0, *one["changes"], one["steps"]]
    return [
        sum(start < step <= end for step in one["consolidations"])
        for start, end in pairwise(ends)
        if end - start >= 100
    ]


def table(rows: list[dict[str, Any]], what: str) -> list[list[str]]:
    """One measure of the summary as text: one line per setting, one column per stream."""
    streams = list(dict.fromkeys(row["stream"] for row in rows))
    found = {(row["stream"], row["setting"]): row[what] for row in rows}

    def cell(value: list[float]) -> str:
        if what == "consolidations":
            return f"{value[0]:.1f}"
        return statistics.text(value)

    return [["", *streams]] + [
        [setting, *(cell(found[stream, setting]) for stream in streams)]
        for setting in dict.fromkeys(row["setting"] for row in rows)
    ]
