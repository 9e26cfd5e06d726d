"""The yardstick: methods of continual learning on sixteen streams, with equal memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from taskfree._core import files, validation
from taskfree.paper import runner, statistics
from taskfree.paper.cache import run_file, versions
from taskfree.paper.methods import figures, ours, peers
from taskfree.paper.methods.ours import Method, Setting
from taskfree.paper.methods.watching import Watcher
from taskfree.paper.publish import publish
from taskfree.paper.streams import STREAMS, STUDY

OURS, REPLAY, PAPER, ONLINE, JOINT = "taskfree", "replay", "paper", "online", "joint"
METHODS: dict[str, Method] = {
    OURS: ours.taskfree,
    REPLAY: ours.replay,
    PAPER: ours.paper,
    ONLINE: ours.online,
    JOINT: ours.joint,
    **peers.PEERS,
}
GRIDS: dict[str, list[Setting]] = {
    PAPER: [
        {"mean": mean, "variance": 0.1, "strength": strength}
        for mean in (0.3, 0.5, 1.0)
        for strength in (0.1, 0.5)
    ],
    **peers.GRIDS,
}
"""The settings among which the best is chosen for each stream, on other data. Ours has none."""
NO_MEMORY = (ONLINE, JOINT, "Avalanche EWC", "Avalanche MAS")
TUNED_WITH = 100
"""The memory with which settings are chosen."""
MEASURES = ("final", "average", "running", "forgetting", "samples per step", "seconds")


@dataclass(frozen=True)
class MethodsConfig:
    """Methods of continual learning on sixteen streams, with equal memory and equal replay.

    Each stream is learned in one pass. Ours is the library's default on all of them, untouched. The
    settings of other methods are chosen for each stream on other data. Runs that results.json holds
    already are not repeated.
    """

    out: Path = Path("results/methods")
    """where results.json, the figures and report.html go"""
    seeds: int = 8
    """seeds per method, stream and memory"""
    tuning_seeds: int = 2
    """seeds per setting, on the part of the data for tuning"""
    streams: tuple[str, ...] = tuple(STREAMS)
    """streams to learn"""
    methods: tuple[str, ...] = (OURS, REPLAY, PAPER, ONLINE, JOINT)
    """methods to compare; those of Avalanche need it installed: `make methods`"""
    memories: tuple[int, ...] = (30, 100, 500, 2000)
    """samples in the memory"""
    workers: int | None = None
    """processes; one per core by default"""

    def __post_init__(self) -> None:
        for name in ("seeds", "tuning_seeds"):
            validation.integer(name, getattr(self, name), least=1)
        for name in self.streams:
            validation.choice("streams", name, tuple(STREAMS))
        for name in self.methods:
            validation.choice("methods", name, tuple(METHODS))
        for size in self.memories:
            validation.integer("memories", size, least=1)


@dataclass(frozen=True)
class MethodJob:
    """A method on a stream with a memory, a seed and a setting."""

    method: str
    stream: str
    memory: int
    seed: int
    part: int = 0
    setting: tuple[tuple[str, Any], ...] = ()

    @property
    def key(self) -> dict[str, Any]:
        """What names the run in results.json."""
        return {
            "method": self.method, "stream": self.stream, "memory": self.memory, "seed": self.seed,
            "part": self.part, "setting": dict(self.setting),
        }  # fmt: skip


def run_one(job: MethodJob) -> dict[str, Any]:
    """Learn a stream with a method."""
    stream = STREAMS[job.stream](job.seed, job.part)
    torch.manual_seed(job.seed)
    watcher = Watcher(stream)
    predict = METHODS[job.method](stream, job.memory, job.seed, dict(job.setting), watcher)
    return {**job.key, **watcher.finish(predict)}


def run(config: MethodsConfig) -> dict[str, Any]:
    """Choose the settings, run everything, and publish the results."""
    theirs = [name for name in config.methods if name in peers.PEERS]
    if theirs and find_spec("avalanche") is None:
        raise ValueError(
            f"methods {', '.join(theirs)} need Avalanche, which is not installed: run `make "
            "methods` in a clone of the repository, or pip install 'taskfree[avalanche]'"
        )
    config.out.mkdir(parents=True, exist_ok=True)
    known = files.read_json(config.out / "results.json") or {}
    kept = known.get("runs", []) if known.get("versions") == versions() else []
    tuning = _all(_tuning_jobs(config), kept, config)
    jobs = [
        MethodJob(method, stream, memory, seed, setting=_best(tuning + kept, method, stream))
        for seed in range(config.seeds)
        for memory in config.memories
        for stream in config.streams
        for method in config.methods
        if _fits(method, stream, memory, config)
    ]
    found = _all(jobs, kept, config)
    runs = _merge(kept, tuning, found)
    rows = summary(runs)
    return publish(
        "methods",
        config,
        title="Methods of continual learning, with equal memory",
        found={
            "summary": rows, "claims": claims(runs), "best peers": best_peers(runs), "runs": runs,
        },
        tables={
            f"final score with {memory} samples (%), mean ± standard error": table(rows, memory)
            for memory in sorted({row["memory"] for row in rows} - {0})
        },
        figures={"memory.png": (figures.memory(rows), figures.CAPTION)},
    )  # fmt: skip


def _fits(method: str, stream: str, memory: int, config: MethodsConfig) -> bool:
    """Whether a run makes sense: without memory, once; within what a method can do.

    The paper's replays all that it holds, which costs too much with more. The code of GSS stops if
    it holds less than a batch.
    """
    if method in NO_MEMORY and memory != config.memories[0]:
        return False
    if (method == PAPER and memory > 100) or (method == "Avalanche GSS" and memory < 100):
        return False
    return method not in peers.PEERS or not _is_regression(stream)


def _is_regression(stream: str) -> bool:
    return stream in ("waves", "recurring regimes")


def _tuning_jobs(config: MethodsConfig) -> list[MethodJob]:
    return [
        MethodJob(method, stream, TUNED_WITH, seed, 1, tuple(setting.items()))
        for method in config.methods
        for stream in config.streams
        if len(GRIDS.get(method, [])) > 1 and _fits(method, stream, config.memories[0], config)
        for setting in GRIDS[method]
        for seed in range(config.tuning_seeds)
    ]


def _best(runs: list[dict[str, Any]], method: str, stream: str) -> tuple[tuple[str, Any], ...]:
    """The setting with the best final score on the part of the data for tuning."""
    grid = GRIDS.get(method, [{}])
    if len(grid) == 1:
        return tuple(grid[0].items())

    def score(setting: Setting) -> float:
        return mean(
            float(one["final"])
            for one in runs
            if (one["method"], one["stream"], one["part"]) == (method, stream, 1)
            and one["setting"] == setting
        )

    return tuple(max(grid, key=score).items())


def _all(
    jobs: list[MethodJob], kept: list[dict[str, Any]], config: MethodsConfig
) -> list[dict[str, Any]]:
    """The results of the jobs; those that are kept are not run again."""
    known = {_name(one): one for one in kept}
    jobs = [job if job.method not in NO_MEMORY else _without_memory(job) for job in jobs]
    missing = [job for job in jobs if _name(job.key) not in known]
    found = runner.run_cached(
        run_one,
        missing,
        partial(_file, config.out),
        workers=config.workers,
        describe=lambda job: f"{job.stream}, {job.method}, {job.memory}",
    )
    known |= {_name(one): one for one in found}
    return [known[_name(job.key)] for job in jobs]


def _file(out: Path, job: MethodJob) -> Path:
    return run_file(out, f"{job.method} {job.stream}", job.key)


def _without_memory(job: MethodJob) -> MethodJob:
    return MethodJob(job.method, job.stream, 0, job.seed, job.part, job.setting)


def _name(one: dict[str, Any]) -> tuple[Any, ...]:
    keys = ("method", "stream", "memory", "seed", "part")
    return (*(one[key] for key in keys), tuple(sorted(one["setting"].items())))


def _merge(*parts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """All runs, each once, in a fixed order."""
    found = {_name(one): one for part in parts for one in part}
    return [found[name] for name in sorted(found, key=str)]


def summary(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means and standard errors over the seeds, for every method, stream and memory."""
    groups: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for one in runs:
        if one["part"] == 0:
            groups.setdefault((one["method"], one["stream"], one["memory"]), []).append(one)
    return [
        {"method": method, "stream": stream, "memory": memory, "seeds": len(group)}
        | {
            name: statistics.mean_and_spread([one[name] for one in group], "error")
            for name in MEASURES
        }
        for (method, stream, memory), group in groups.items()
    ]


def _pairs(
    runs: list[dict[str, Any]], first: str, second: str
) -> dict[tuple[str, int], list[tuple[dict[str, Any], dict[str, Any]]]]:
    """Runs of two methods with the same seed, by stream and memory."""
    by_name = {
        (one["method"], one["stream"], one["memory"], one["seed"]): one
        for one in runs
        if one["part"] == 0
    }
    found: dict[tuple[str, int], list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for (method, stream, memory, seed), one in by_name.items():
        other = by_name.get((second, stream, memory, seed))
        if method == first and other is not None:
            found.setdefault((stream, memory), []).append((one, other))
    return found


def _difference(
    both: list[tuple[dict[str, Any], dict[str, Any]]], what: str = "final"
) -> list[float]:
    """The mean paired difference over the seeds, and its standard error."""
    return statistics.mean_and_spread([a[what] - b[what] for a, b in both], "error")


def claims(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """What is asked of the default, with paired differences to plain replay over the seeds."""
    below, behind = dict[str, list[float]](), dict[str, list[float]]()
    pairs = _pairs(runs, OURS, REPLAY)
    for (stream, memory), both in pairs.items():
        final, running = _difference(both), _difference(both, "running")
        if final[0] < -final[1]:
            below[f"{stream}, {memory}"] = final
        if running[0] < -0.02:
            behind[f"{stream}, {memory}"] = running
    return {
        "compared with plain replay": len(pairs),
        "final score below plain replay by more than a standard error": below,
        "running score below plain replay by more than 2 points": behind,
    }


def best_peers(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each stream and memory, the peer with the best mean final score, compared with ours."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for peer in peers.PEERS:
        for (stream, memory), both in _pairs(runs, OURS, peer).items():
            row = {
                "stream": stream, "memory": memory, "peer": peer, "seeds": len(both),
                "final": statistics.mean_and_spread([b["final"] for _, b in both], "error"),
                "difference": _difference(both), "running": _difference(both, "running"),
            }  # fmt: skip
            best = found.setdefault((stream, memory), row)
            found[stream, memory] = max(best, row, key=_final)
    return list(found.values())


def _final(row: dict[str, Any]) -> float:
    mean: float = row["final"][0]
    return mean


def table(rows: list[dict[str, Any]], memory: int) -> list[list[str]]:
    """Final scores as text: one line per stream, one column per method, and the means."""
    rows = [row for row in rows if row["memory"] in (memory, 0)]
    found = {(row["method"], row["stream"]): row["final"] for row in rows}
    streams = [name for name in STREAMS if any(row["stream"] == name for row in rows)]
    methods = [name for name in METHODS if any(row["method"] == name for row in rows)]
    lines = [["", *methods]]
    for stream in streams:
        cells = [found.get((method, stream)) for method in methods]
        lines.append([stream, *(statistics.text(cell) if cell else "" for cell in cells)])
    for name, names in {"mean of the study's eight": STUDY, "mean of all": streams}.items():
        lines.append([name, *(_mean(found, method, names) for method in methods)])
    return lines


def _mean(found: dict[tuple[str, str], list[float]], method: str, streams: Sequence[str]) -> str:
    if any((method, stream) not in found for stream in streams):
        return ""
    return f"{100 * mean(found[method, stream][0] for stream in streams):.1f}"
