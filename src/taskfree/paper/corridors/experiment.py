"""Collision avoidance in flight: paper section 4.3, and the ten corridors of the supplement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from rich.console import Console
from torch import Tensor, nn
from torch.optim.lr_scheduler import PolynomialLR

from taskfree._core import validation
from taskfree.defaults import STRENGTH, Auto
from taskfree.how import MAS, Regularizer
from taskfree.learner import Learner
from taskfree.paper import runner
from taskfree.paper.cache import run_file
from taskfree.paper.corridors import analysis, figures, recording, rollout
from taskfree.paper.corridors.env import CorridorEnv
from taskfree.paper.corridors.recording import Flight, Recording
from taskfree.paper.corridors.themes import THEMES
from taskfree.paper.publish import publish, settings
from taskfree.paper.simulation import tiny_v2
from taskfree.when import Settled
from taskfree.which import Buffer, Hardest, Reservoir

FRAMES = 10
"""New frames per time step."""
BATCH_SIZE = 20
"""Frames per step of offline joint learning."""


@dataclass(frozen=True)
class CorridorsConfig:
    """A drone learns to imitate an expert, corridor after corridor, from each frame once.

    The expert uses a laser; the network sees only camera images. All settings of a seed start from
    the same weights and learn from the same flights.
    """

    out: Path = Path("results/corridors")
    """where results.json, figures and report.html go; finished runs there are not repeated"""
    corridors: tuple[str, ...] = ("A", "B", "C", "D")
    """which corridors, in this order"""
    seeds: int = 3
    """seeds per setting"""
    flights: Recording = field(default_factory=Recording)
    """the recorded flights; they are recorded first if they are missing"""
    lr: float = 0.0003
    """learning rate of Adam"""
    repeats: int = 3
    """gradient steps per time step"""
    buffer_size: int = 40
    """capacity of the hard buffer"""
    strength: float = STRENGTH
    """strength of the penalty, dimensionless"""
    epochs: int = 8
    """epochs of offline joint learning, which has no buffer and decays its learning rate to 0"""
    evaluate_every: int = 25
    """time steps between evaluations"""
    frame_stride: int = 4
    """evaluate on every n-th frame"""
    live: bool = False
    """learn directly from the simulator while the expert flies: the same frames, but slower"""
    rollout_seconds: float = 20.0
    """seconds that each trained network then flies in every corridor; 0 skips this"""
    workers: int | None = None
    """processes; one per core by default"""

    name = "corridors"

    def __post_init__(self) -> None:
        for name in (
            "seeds", "repeats", "buffer_size", "epochs", "evaluate_every", "frame_stride",
        ):  # fmt: skip
            validation.integer(name, getattr(self, name), least=1)
        validation.number("lr", self.lr, above=0)
        validation.number("rollout_seconds", self.rollout_seconds, least=0)
        MAS(self.strength)


@dataclass(frozen=True)
class TenCorridorsConfig(CorridorsConfig):
    """A drone learns to imitate an expert in ten corridors, from each frame once.

    The expert uses a laser; the network sees only camera images. All settings of a seed start from
    the same weights and learn from the same flights.
    """

    out: Path = Path("results/corridors10")
    """where results.json, figures and report.html go; finished runs there are not repeated"""
    corridors: tuple[str, ...] = tuple(THEMES)
    """which corridors, in this order"""
    evaluate_every: int = 50
    """time steps between evaluations"""

    name = "corridors10"


@dataclass(frozen=True)
class CorridorSetting:
    """A way to learn."""

    name: str
    buffer: bool = True
    consolidate: bool = False
    balanced: bool = False
    reservoir: int = 0
    """The capacity of a class-balanced reservoir instead of the hard buffer; 0 for the latter."""
    order: str = "as flown"
    """`"as flown"`, `"shuffled"` for joint learning, or `"none"` for no learning."""
    epochs: bool = False
    """Whether it learns offline: all frames are available from the start, for several epochs."""


SETTINGS = (
    CorridorSetting("scratch", order="none"),
    CorridorSetting("online, no buffer", buffer=False),
    CorridorSetting("online"),
    CorridorSetting("online continual", consolidate=True),
    CorridorSetting("online, class-balanced", balanced=True),
    CorridorSetting("online continual, class-balanced", consolidate=True, balanced=True),
    CorridorSetting("replay, 500 frames", reservoir=500),
    CorridorSetting("default, 40 frames", consolidate=True, reservoir=40),
    CorridorSetting("default, 500 frames", consolidate=True, reservoir=500),
    CorridorSetting("online joint", balanced=True, order="shuffled"),
    CorridorSetting("offline joint", buffer=False, order="shuffled", epochs=True),
)


@dataclass(frozen=True)
class CorridorJob:
    """A setting with a seed."""

    config: CorridorsConfig
    setting: CorridorSetting
    seed: int


def run_one(job: CorridorJob) -> dict[str, Any]:
    """Learn all corridors with a setting and a seed."""
    config, setting = job.config, job.setting
    started = perf_counter()
    flights = [recording.load(config.flights, name) for name in config.corridors]
    crossings = [frames // FRAMES for frames in accumulate(len(f.frames) for f in flights)]
    learner = _learner(tiny_v2.network(seed=job.seed), config, setting)
    stride = config.frame_stride
    tests = [(f.frames[::stride], f.actions[::stride]) for f in flights]
    # with all frames available from the start, the learning rate can decay to 0
    steps = config.epochs * (sum(len(f.frames) for f in flights) // BATCH_SIZE)
    scheduler = PolynomialLR(learner.optimizer, steps) if setting.epochs else None
    curve: list[dict[str, Any]] = [{"step": 0, "corridors": _evaluate(learner, tests)}]
    losses: list[float] = []
    events = []
    for step, (frames, actions) in enumerate(_batches(flights, job), 1):
        report = learner.learn(tiny_v2.standardize(frames), actions)
        if scheduler is not None:
            scheduler.step()
        losses.append(round(report.window_loss, 3))
        if (event := report.event) is not None:
            events.append({"step": step, "kind": event.kind, "text": event.text})
        if (step % config.evaluate_every == 0 or step in crossings) and not setting.epochs:
            curve.append({"step": step, "corridors": _evaluate(learner, tests)})
    finished = perf_counter()
    flown = [_fly(learner, job, name) for name in config.corridors if config.rollout_seconds]
    return {
        "setting": setting.name, "seed": job.seed, "final": _evaluate(learner, tests),
        "just flown": _just_flown(curve, crossings) if setting.order == "as flown" else [],
        "crossings": crossings, "events": events, "curve": curve, "losses": losses,
        "flown": [one._asdict() for one in flown],
        "seconds": round(finished - started, 1),
        "seconds flying": round(perf_counter() - finished, 1),
    }  # fmt: skip


def _just_flown(curve: list[dict[str, Any]], crossings: list[int]) -> list[list[float]]:
    """For every corridor: its accuracies directly after its flight."""
    at = {point["step"]: point["corridors"] for point in curve}
    return [at[step][n] for n, step in enumerate(crossings) if step in at]


def _fly(learner: Learner, job: CorridorJob, name: str) -> rollout.Rollout:
    """Let the network fly by itself; each seed starts in another part of the corridor."""
    config = job.config
    world = recording.world(name, config.flights)
    env = CorridorEnv(world, camera=config.flights.camera)

    def policy(image: Any, _: dict[str, Any]) -> int:
        inputs = tiny_v2.standardize(torch.from_numpy(image)[None])
        return int(learner.predict(inputs).argmax())

    starts = len(world.tiles) - 1
    tile = (job.seed * (starts // 3) + job.seed // 3) % starts
    flown = rollout.fly(env, policy, seconds=config.rollout_seconds, tile=tile, seed=job.seed)
    env.close()
    return flown


def _learner(model: nn.Module, config: CorridorsConfig, setting: CorridorSetting) -> Learner:
    which: Buffer | None = None
    how: Regularizer | Auto | None = None
    if setting.reservoir:
        which = Reservoir(setting.reservoir, balanced="auto")
        how = "auto" if setting.consolidate else None
    elif setting.buffer:
        which = Hardest(config.buffer_size, balanced=setting.balanced)
    if setting.consolidate and not setting.reservoir:
        how = MAS(config.strength, penalty="relative")
    return Learner(
        model,
        torch.optim.Adam(model.parameters(), lr=config.lr, fused=True),
        loss=nn.CrossEntropyLoss(reduction="none"),
        when=Settled(),
        which=which,
        how=how,
        repeats=1 if setting.epochs else config.repeats,
    )


def _batches(flights: list[Flight], job: CorridorJob) -> Iterable[tuple[Tensor, Tensor]]:
    """The time steps of a run: ten frames each, or larger batches for offline learning."""
    config, setting = job.config, job.setting
    if setting.order == "none":
        return []
    if setting.order == "as flown" and config.live:
        return _live(config)
    frames = torch.cat([flight.frames for flight in flights])
    actions = torch.cat([flight.actions for flight in flights])
    orders = [torch.arange(len(frames))]
    if setting.order == "shuffled":
        generator = torch.Generator().manual_seed(job.seed)
        passes = config.epochs if setting.epochs else 1
        orders = [torch.randperm(len(frames), generator=generator) for _ in range(passes)]
    size = BATCH_SIZE if setting.epochs else FRAMES
    rows = [part for order in orders for part in torch.split(order, size) if len(part) == size]
    return ((frames[part], actions[part]) for part in rows)


def _live(config: CorridorsConfig) -> Iterator[tuple[Tensor, Tensor]]:
    """Ten frames at a time from the simulator, corridor after corridor."""
    flown = (m for name in config.corridors for m in recording.moments(name, config.flights))
    while len(part := list(islice(flown, FRAMES))) == FRAMES:
        yield torch.stack([m.image for m in part]), torch.tensor([m.action for m in part])


def _evaluate(learner: Learner, tests: list[tuple[Tensor, Tensor]]) -> list[list[float]]:
    """For every corridor: the accuracy, and the balanced accuracy over the actions."""
    found = []
    for frames, actions in tests:
        parts = (tiny_v2.standardize(part) for part in torch.split(frames, 64))
        chosen = torch.cat([learner.predict(part).argmax(1) for part in parts])
        right = (chosen == actions).float()
        by_action = [right[actions == action].mean() for action in torch.unique(actions)]
        found.append(
            [round(float(right.mean()), 4), round(float(sum(by_action)) / len(by_action), 4)]
        )
    return found


def run(config: CorridorsConfig) -> dict[str, Any]:
    """Record missing flights, run every setting that is not finished, and publish the results."""
    recorded = recording.run(replace(config.flights, corridors=config.corridors))
    jobs = [
        CorridorJob(config, setting, seed) for setting in SETTINGS for seed in range(config.seeds)
    ]
    runs = runner.run_cached(
        run_one,
        sorted(jobs, key=lambda job: not job.setting.epochs),  # the longest first
        _file,
        workers=config.workers,
        describe=lambda job: f"{job.setting.name}, {job.seed}",
    )
    names = [setting.name for setting in SETTINGS]
    rows = analysis.summary(config.corridors, names, runs)
    flights = {name: recording.load(config.flights, name).frames for name in config.corridors}
    drawn = {
        "views.png": figures.views(flights),
        "accuracy.png": figures.curves(config.corridors, runs, 0),
        "balanced.png": figures.curves(config.corridors, runs, 1),
        "final.png": figures.bars(rows),
    }
    if config.rollout_seconds:
        drawn["rollout.png"] = figures.rollouts(rows)
    after = f"After the last corridor, mean ± standard deviation over {config.seeds} seeds"
    results = publish(
        config.name,
        config,
        title=f"Collision avoidance in flight, {len(config.corridors)} corridors",
        found={
            "config": _settings(config),
            "flights": [
                {key: value for key, value in row.items() if key != "file"} for row in recorded
            ],
            "aims": analysis.aims(config.corridors, names, runs),
            "summary": rows,
            "runs": runs,
        },
        tables={
            after: analysis.table(rows),
            "Balanced accuracy (%) by corridor": analysis.table_by_corridor(rows),
        },
        figures={name: (figure, figures.CAPTIONS[name]) for name, figure in drawn.items()},
        details=("flights", "aims"),
    )
    for name, value in results["aims"].items():
        Console().print(f"{name}: {value}")
    return results


def _settings(config: CorridorsConfig) -> dict[str, Any]:
    """The options that a result depends on; those of the flights with the key of their folder."""
    used = settings(config)
    used["flights"].pop("corridors")  # those of the experiment are recorded
    used["flights"]["key"] = recording.file(config.flights, "A").parent.name
    return used


def _file(job: CorridorJob) -> Path:
    """The file of a run; its key leaves out options that the setting does not use."""
    config, setting = job.config, job.setting
    uses = {
        "buffer_size": setting.buffer and not setting.reservoir,
        "strength": setting.consolidate and not setting.reservoir, "epochs": setting.epochs,
        "repeats": not setting.epochs, "live": setting.order == "as flown", "seeds": False,
    }  # fmt: skip
    used = {name: value for name, value in _settings(config).items() if uses.get(name, True)}
    return run_file(config.out, f"{setting.name} {job.seed}", used)
