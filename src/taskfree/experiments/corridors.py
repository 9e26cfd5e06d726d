"""Collision avoidance in flight: paper section 4.3 and the supplement's ten corridors."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import mean, stdev
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from taskfree import arguments
from taskfree.experiments import pool
from taskfree.how import MAS
from taskfree.learner import Learner
from taskfree.robots import record, tiny
from taskfree.when import Settled
from taskfree.which import Hardest

FRAMES = 10
"""New frames a time step."""


@dataclass(frozen=True)
class Config:
    """A drone learns to imitate a laser's expert, corridor after corridor, each frame seen once.

    Every setting starts from the same weights for a seed and sees the same flights.
    """

    out: Path = Path("results/corridors")
    """where results.json, the figures and report.html go; finished runs there are not repeated"""
    corridors: tuple[str, ...] = ("A", "B", "C", "D")
    """which, in this order"""
    seeds: int = 3
    """how many seeds each setting runs with"""
    flights: record.Config = field(default_factory=record.Config)
    """the recorded flights; they are recorded first if they are not there"""
    lr: float = 0.03
    """learning rate of SGD"""
    repeats: int = 3
    """gradient steps a time step"""
    clip: float = 1.0
    """the largest norm of a gradient"""
    buffer: int = 40
    """capacity of the hard buffer"""
    strength: float = 0.01
    """strength of the penalty, without units"""
    epochs: int = 10
    """passes of offline joint learning"""
    every: int = 25
    """evaluate every so many time steps"""
    share: int = 4
    """evaluate on every so many-th frame"""
    workers: int | None = None
    """processes; as many as there are cores if not given"""

    def __post_init__(self) -> None:
        for name in ("seeds", "repeats", "buffer", "epochs", "every", "share"):
            arguments.whole(name, getattr(self, name), least=1)
        arguments.number("lr", self.lr, above=0)
        arguments.number("clip", self.clip, above=0)
        MAS(self.strength)


@dataclass(frozen=True)
class Setting:
    """One way to learn."""

    name: str
    buffer: bool = True
    consolidate: bool = False
    balanced: bool = False
    order: str = "as flown"
    """`"as flown"`, `"shuffled"` for joint learning, or `"none"` for no learning at all."""
    epochs: bool = False


SETTINGS = (
    Setting("scratch", order="none"),
    Setting("online, no buffer", buffer=False),
    Setting("online"),
    Setting("online continual", consolidate=True),
    Setting("online, normalized", balanced=True),
    Setting("online continual, normalized", consolidate=True, balanced=True),
    Setting("online joint", balanced=True, order="shuffled"),
    Setting("offline joint", balanced=True, order="shuffled", epochs=True),
)


@dataclass(frozen=True)
class Job:
    """One setting with one seed."""

    config: Config
    setting: Setting
    seed: int


def run_one(job: Job) -> dict[str, Any]:
    """Learn all corridors with one setting and one seed."""
    config, setting = job.config, job.setting
    started = perf_counter()
    flights = [record.load(config.flights, name) for name in config.corridors]
    model = tiny.network(seed=job.seed)
    learner = _learner(model, config, setting)
    tests = [(f.frames[:: config.share], f.actions[:: config.share]) for f in flights]
    curve: list[dict[str, Any]] = [{"step": 0, "corridors": _evaluate(learner, tests)}]
    losses: list[float] = []
    events = []
    for step, (frames, actions) in enumerate(_batches(flights, config, setting, job.seed), 1):
        report = learner.learn(tiny.scaled(frames), actions)
        losses.append(round(report.window_loss, 4))
        if report.event is not None:
            events.append({"step": step, "kind": report.event.kind, "text": report.event.text})
        if step % config.every == 0 and not setting.epochs:
            curve.append({"step": step, "corridors": _evaluate(learner, tests)})
    crossings = [
        sum(len(f.frames) // FRAMES for f in flights[: n + 1]) for n in range(len(flights))
    ]
    return {
        "setting": setting.name, "seed": job.seed, "final": _evaluate(learner, tests),
        "consolidations": [event["step"] for event in events if event["kind"] == "plateau"],
        "crossings": crossings, "events": events, "curve": curve, "losses": losses,
        "seconds": round(perf_counter() - started, 1),
    }  # fmt: skip


class _Clipped(torch.optim.SGD):
    """SGD that keeps the norm of a step's gradient below a limit."""

    def __init__(self, model: nn.Module, lr: float, clip: float) -> None:
        super().__init__(model.parameters(), lr=lr)
        self._clip = clip

    def step(self, closure: Any = None) -> Any:
        parameters = [value for group in self.param_groups for value in group["params"]]
        nn.utils.clip_grad_norm_(parameters, self._clip)
        return super().step(closure)


def _learner(model: nn.Module, config: Config, setting: Setting) -> Learner:
    return Learner(
        model,
        _Clipped(model, config.lr, config.clip),
        loss=nn.CrossEntropyLoss(reduction="none"),
        when=Settled(),
        which=Hardest(config.buffer, balanced=setting.balanced) if setting.buffer else None,
        how=MAS(config.strength, penalty="relative") if setting.consolidate else None,
        repeats=config.repeats,
    )


def _batches(
    flights: list[record.Flight], config: Config, setting: Setting, seed: int
) -> list[tuple[Tensor, Tensor]]:
    """The time steps of a run: ten frames each."""
    if setting.order == "none":
        return []
    frames = torch.cat([flight.frames for flight in flights])
    actions = torch.cat([flight.actions for flight in flights])
    orders = [torch.arange(len(frames))]
    if setting.order == "shuffled":
        generator = torch.Generator().manual_seed(seed)
        passes = config.epochs if setting.epochs else 1
        orders = [torch.randperm(len(frames), generator=generator) for _ in range(passes)]
    rows = [part for order in orders for part in torch.split(order, FRAMES) if len(part) == FRAMES]
    return [(frames[part], actions[part]) for part in rows]


def _evaluate(learner: Learner, tests: list[tuple[Tensor, Tensor]]) -> list[list[float]]:
    """For every corridor: the accuracy, and the mean of the accuracies over the actions."""
    found = []
    for frames, actions in tests:
        chosen = torch.cat(
            [learner.predict(tiny.scaled(part)).argmax(1) for part in torch.split(frames, 64)]
        )
        right = (chosen == actions).float()
        by_action = [right[actions == action].mean() for action in torch.unique(actions)]
        found.append(
            [round(float(right.mean()), 4), round(float(sum(by_action)) / len(by_action), 4)]
        )
    return found


# All of it


def run(config: Config) -> dict[str, Any]:
    """Record what is missing, run every setting that is not done, and write what was found."""
    flights = replace(config.flights, corridors=config.corridors)
    recorded = record.run(flights)
    runs_folder = config.out / "runs"
    runs_folder.mkdir(parents=True, exist_ok=True)
    jobs = [Job(config, setting, seed) for setting in SETTINGS for seed in range(config.seeds)]
    pool.run_all(
        _run_and_keep,
        [job for job in jobs if not _file(job).exists()],
        workers=config.workers,
        describe=lambda job: f"{job.setting.name}, {job.seed}",
    )
    runs = [json.loads(_file(job).read_text()) for job in jobs]
    results: dict[str, Any] = {
        "config": _said(config),
        "versions": pool.versions(),
        "flights": [
            {key: value for key, value in row.items() if key != "file"} for row in recorded
        ],
        "summary": summary(config, runs),
        "runs": [
            {key: one[key] for key in one if key not in ("curve", "losses", "events")}
            for one in runs
        ],
    }
    pool.write_json(config.out / "results.json", results)
    return results


def _said(config: Config) -> dict[str, Any]:
    """The settings that a result depends on."""
    said = asdict(config)
    for name in ("out", "workers", "seeds"):
        said.pop(name)
    for name in ("out", "workers", "video", "corridors"):
        said["flights"].pop(name)
    return said


def _file(job: Job) -> Path:
    """Where a run is kept; runs of other settings are other files."""
    made = json.dumps([_said(job.config), pool.versions()], sort_keys=True)
    mark = hashlib.sha256(made.encode()).hexdigest()[:8]
    name = job.setting.name.replace(", ", "-").replace(" ", "-")
    return job.config.out / "runs" / f"{name}-{job.seed}-{mark}.json"


def _run_and_keep(job: Job) -> None:
    result = run_one(job)
    unfinished = _file(job).with_suffix(".writing")
    unfinished.write_text(json.dumps(result))
    unfinished.replace(_file(job))


def summary(config: Config, runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean and standard deviation over the seeds of the final accuracies, all and by corridor."""
    rows = []
    for setting in SETTINGS:
        chosen = [one["final"] for one in runs if one["setting"] == setting.name]
        row: dict[str, Any] = {"setting": setting.name, "seeds": len(chosen)}
        for index, kind in enumerate(("accuracy", "weighted")):
            row[kind] = _spread([mean(corridor[index] for corridor in one) for one in chosen])
            row[f"{kind} by corridor"] = {
                name: _spread([one[number][index] for one in chosen])
                for number, name in enumerate(config.corridors)
            }
        rows.append(row)
    return rows


def _spread(values: list[float]) -> list[float]:
    return [round(mean(values), 4), round(stdev(values) if len(values) > 1 else 0.0, 4)]
