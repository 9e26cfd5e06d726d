"""The study of triggers and strengths: does it do well on streams that nobody tuned it for?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean, stdev
from time import perf_counter
from typing import Any

import torch
from rich.console import Console
from river import drift

from taskfree import arguments, report
from taskfree.drift import Drift
from taskfree.experiments import pool, triggers_figures
from taskfree.how import MAS
from taskfree.learner import Learner
from taskfree.streams import changing, fashion
from taskfree.when import At, Every, Plateau, RelativePlateau, Trigger

EVERY = 25
"""The tests are taken every so many steps."""


@dataclass(frozen=True)
class Config:
    """Streams that differ in everything, learned with every trigger and many strengths.

    The default learner is told nothing. The paper's Plateau has its thresholds tuned, on other data
    of the same stream; the oracle is told where the stream changes.
    """

    out: Path = Path("results/triggers")
    """where results.json, the figures and report.html go"""
    seeds: int = 6
    """how many seeds everything runs with"""
    tuning_seeds: int = 3
    """how many seeds each pair of thresholds is tried with, on the part of the data for tuning"""
    streams: tuple[str, ...] = tuple(changing.STREAMS)
    """which streams"""
    means: tuple[float, ...] = (0.1, 0.2, 0.4, 0.8, 1.6)
    """thresholds of Plateau on the mean that are tried"""
    variances: tuple[float, ...] = (0.02, 0.2)
    """thresholds of Plateau on the variance that are tried"""
    strengths: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    """strengths that the default is compared with"""
    workers: int | None = None
    """processes; as many as there are cores if not given"""

    def __post_init__(self) -> None:
        for name in ("seeds", "tuning_seeds"):
            arguments.whole(name, getattr(self, name), least=1)
        for name in self.streams:
            arguments.one_of("streams", name, tuple(changing.STREAMS))
        for value in self.means:
            arguments.number("means", value)
        for value in self.variances:
            arguments.number("variances", value, above=0)
        for value in self.strengths:
            MAS(value)


@dataclass(frozen=True)
class Job:
    """One setting on one stream with one seed."""

    stream: str
    setting: str
    seed: int
    part: int = 0
    thresholds: tuple[float, float] | None = None
    strength: float | None = None


DEFAULT, ONLINE, TUNED, ORACLE = "default", "online", "Plateau, tuned", "oracle"

TRIGGERS: dict[str, Callable[[changing.Stream], Trigger]] = {
    ORACLE: lambda stream: At([*stream.changes, len(stream.batches)]),
    "RelativePlateau": lambda _: RelativePlateau(),
    "ADWIN": lambda _: Drift(drift.ADWIN()),  # type: ignore[no-untyped-call]
    "Page-Hinkley": lambda _: Drift(drift.PageHinkley()),
    "KSWIN": lambda _: Drift(drift.KSWIN(seed=0)),
    "every 100": lambda _: Every(100),
}
"""What the default is compared with. At the last step before a change, the oracle consolidates."""

SETTINGS = (ONLINE, DEFAULT, TUNED, *TRIGGERS)


def run_one(job: Job) -> dict[str, Any]:
    """Learn one stream."""
    started = perf_counter()
    stream = changing.STREAMS[job.stream](job.seed, job.part)
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


def _learner(stream: changing.Stream, job: Job) -> Learner:
    """All settings begin with the same weights, and see the same batches."""
    options: dict[str, Any] = {}
    if job.setting == ONLINE:
        options["how"] = None
    elif job.thresholds is not None:
        low, steady = job.thresholds
        options["when"] = Plateau(window=5, mean=low, variance=steady)
    elif job.setting in TRIGGERS:
        options["when"] = TRIGGERS[job.setting](stream)
    if job.strength is not None:
        options["how"] = MAS(job.strength, penalty="relative")
    optimizer = torch.optim.SGD(stream.model.parameters(), lr=stream.lr)
    return Learner(stream.model, optimizer, loss=stream.loss, repeats=stream.repeats, **options)


def _score(stream: changing.Stream, learner: Learner, environment: int) -> float:
    x, y = stream.tests[environment]
    return stream.score(learner.predict(x), y)


def run(config: Config) -> dict[str, Any]:
    """Tune the Plateau, run everything, and write results, figures and the report."""
    console = Console()
    if any("pictures" in name for name in config.streams):
        fashion.find()
    config.out.mkdir(parents=True, exist_ok=True)
    grid = [(low, steady) for low in config.means for steady in config.variances]
    tuning = _all(
        [
            Job(name, TUNED, seed, part=1, thresholds=pair)
            for name in config.streams
            for pair in grid
            for seed in range(config.tuning_seeds)
        ],
        config,
    )
    tuned = {name: _best(tuning, name, grid) for name in config.streams}
    jobs = [
        Job(name, setting, seed, thresholds=tuned[name] if setting == TUNED else None)
        for name in config.streams
        for setting in SETTINGS
        for seed in range(config.seeds)
    ]
    jobs += [
        Job(name, f"strength {strength:g}", seed, strength=strength)
        for name in config.streams
        for strength in config.strengths
        for seed in range(config.seeds)
    ]
    runs = _all(jobs, config)
    results: dict[str, Any] = {
        "command": pool.command("triggers", config),
        "config": {
            key: value for key, value in asdict(config).items() if key not in ("out", "workers")
        },
        "versions": pool.versions(),
        "tuned": {name: list(pair) for name, pair in tuned.items()},
        "aims": aims(config, runs),
        "summary": summary(config, runs),
        "runs": runs,
        "tuning": [
            {key: one[key] for key in ("stream", "seed", "thresholds", "final")} for one in tuning
        ],
    }
    pool.write_json(config.out / "results.json", results)
    figures = {
        "triggers.png": triggers_figures.scores(results["summary"], SETTINGS),
        "timeline.png": triggers_figures.timeline(runs, SETTINGS[1:]),
        "strengths.png": triggers_figures.strengths(results["summary"], config.strengths),
    }
    for name, figure in figures.items():
        report.save(figure, config.out / name)
    report.write_html(
        config.out / "report.html",
        title="Nothing to tune: triggers and strengths",
        introduction=" ".join((Config.__doc__ or "").split()),
        tables={
            f"{what}, mean over {config.seeds} seeds": table(results["summary"], what)
            for what in ("final", "average", "forgetting", "consolidations")
        },
        figures={name: (config.out / name, triggers_figures.CAPTIONS[name]) for name in figures},
        details={key: results[key] for key in ("config", "versions", "tuned", "aims")},
    )
    _print(console, results["summary"], results["aims"])
    console.print(f"report: {config.out / 'report.html'}")
    return results


def _all(jobs: list[Job], config: Config) -> list[dict[str, Any]]:
    return pool.run_all(
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


def summary(config: Config, runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean and standard error over the seeds, by stream and setting."""
    rows = []
    names = [*SETTINGS, *(f"strength {strength:g}" for strength in config.strengths)]
    for stream in config.streams:
        for setting in names:
            chosen = [o for o in runs if (o["stream"], o["setting"]) == (stream, setting)]
            row: dict[str, Any] = {"stream": stream, "setting": setting}
            for what in ("final", "average", "forgetting"):
                row[what] = _mean_and_error([one[what] for one in chosen])
            row["consolidations"] = _mean_and_error([len(o["consolidations"]) for o in chosen])
            rows.append(row)
    return rows


def _mean_and_error(values: list[float]) -> list[float]:
    error = stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return [round(mean(values), 4), round(error, 4)]


def aims(config: Config, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """What the default is meant to reach, and what it does."""
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
    """How many consolidations there are between changes that are 100 steps or more apart."""
    ends = [0, *one["changes"], one["steps"]]
    return [
        sum(start < step <= end for step in one["consolidations"])
        for start, end in pairwise(ends)
        if end - start >= 100
    ]


def table(rows: list[dict[str, Any]], what: str) -> list[list[str]]:
    """One number of the summary as text: a line a setting, a column a stream."""
    streams = list(dict.fromkeys(row["stream"] for row in rows))
    found = {(row["stream"], row["setting"]): row[what] for row in rows}

    def cell(value: list[float]) -> str:
        if what == "consolidations":
            return f"{value[0]:.1f}"
        return f"{100 * value[0]:.1f} ± {100 * value[1]:.1f}"

    return [["", *streams]] + [
        [setting, *(cell(found[stream, setting]) for stream in streams)]
        for setting in dict.fromkeys(row["setting"] for row in rows)
    ]


def _print(console: Console, rows: list[dict[str, Any]], found: dict[str, Any]) -> None:
    shown = [[cell.split(" ±")[0] for cell in line] for line in table(rows, "final")]
    pool.print_table("Final score over all environments, in %", shown)
    for name, value in found.items():
        console.print(f"{name}: {value}")
