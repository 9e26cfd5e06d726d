"""Collision avoidance in flight: paper section 4.3 and the supplement's ten corridors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate, islice
from pathlib import Path
from statistics import mean, stdev
from time import perf_counter
from typing import Any

import torch
from rich.console import Console
from torch import Tensor, nn
from torch.optim.lr_scheduler import PolynomialLR

from taskfree import arguments, report
from taskfree.experiments import corridors_figures, pool
from taskfree.how import MAS
from taskfree.learner import Learner
from taskfree.robots import closed_loop, record, tiny
from taskfree.robots.flight import CorridorEnv
from taskfree.when import Settled
from taskfree.which import Hardest

FRAMES = 10
"""New frames a time step."""
BATCH = 20
"""Frames a step of offline joint learning."""


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
    lr: float = 0.0003
    """learning rate of Adam"""
    repeats: int = 3
    """gradient steps a time step"""
    buffer: int = 40
    """capacity of the hard buffer"""
    strength: float = 0.01
    """strength of the penalty, without units"""
    epochs: int = 8
    """passes of offline joint learning, which has no buffer, and whose learning rate falls to
    nothing"""
    every: int = 25
    """evaluate every so many time steps"""
    share: int = 4
    """evaluate on every so many-th frame"""
    live: bool = False
    """learn straight from the simulator while the expert flies: the same frames, only slower"""
    alone: float = 20.0
    """seconds that each network then flies every corridor by itself; 0 leaves that out"""
    workers: int | None = None
    """processes; as many as there are cores if not given"""

    def __post_init__(self) -> None:
        for name in ("seeds", "repeats", "buffer", "epochs", "every", "share"):
            arguments.whole(name, getattr(self, name), least=1)
        arguments.number("lr", self.lr, above=0)
        arguments.number("alone", self.alone, least=0)
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
    """Whether it learns offline: all frames are there beforehand and come several times."""


SETTINGS = (
    Setting("scratch", order="none"),
    Setting("online, no buffer", buffer=False),
    Setting("online"),
    Setting("online continual", consolidate=True),
    Setting("online, normalized", balanced=True),
    Setting("online continual, normalized", consolidate=True, balanced=True),
    Setting("online joint", balanced=True, order="shuffled"),
    Setting("offline joint", buffer=False, order="shuffled", epochs=True),
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
    crossings = [frames // FRAMES for frames in accumulate(len(f.frames) for f in flights)]
    learner = _learner(tiny.network(seed=job.seed), config, setting)
    tests = [(f.frames[:: config.share], f.actions[:: config.share]) for f in flights]
    # whoever has all frames beforehand lets the learning rate fall to nothing
    steps = config.epochs * (sum(len(f.frames) for f in flights) // BATCH)
    falls = PolynomialLR(learner.optimizer, steps) if setting.epochs else None
    curve: list[dict[str, Any]] = [{"step": 0, "corridors": _evaluate(learner, tests)}]
    losses: list[float] = []
    events = []
    for step, (frames, actions) in enumerate(_batches(flights, job), 1):
        learned = learner.learn(tiny.scaled(frames), actions)
        if falls is not None:
            falls.step()
        losses.append(round(learned.window_loss, 3))
        if (event := learned.event) is not None:
            events.append({"step": step, "kind": event.kind, "text": event.text})
        if (step % config.every == 0 or step in crossings) and not setting.epochs:
            curve.append({"step": step, "corridors": _evaluate(learner, tests)})
    finished = perf_counter()
    flown = [_fly_alone(learner, job, name) for name in config.corridors] if config.alone else []
    return {
        "setting": setting.name, "seed": job.seed, "final": _evaluate(learner, tests),
        "just flown": _just_flown(curve, crossings) if setting.order == "as flown" else [],
        "crossings": crossings, "events": events, "curve": curve, "losses": losses,
        "flown": [one._asdict() for one in flown],
        "seconds": round(finished - started, 1),
        "seconds flying": round(perf_counter() - finished, 1),
    }  # fmt: skip


def _just_flown(curve: list[dict[str, Any]], crossings: list[int]) -> list[list[float]]:
    """For every corridor: its accuracies when it had just been flown."""
    at = {point["step"]: point["corridors"] for point in curve}
    return [at[step][n] for n, step in enumerate(crossings) if step in at]


def _fly_alone(learner: Learner, job: Job, name: str) -> closed_loop.Flown:
    """The network flies by itself, each seed from another part of the corridor on."""
    config = job.config
    world = record.world(name, config.flights)
    env = CorridorEnv(world, camera=config.flights.camera)

    def policy(picture: Any, _: dict[str, Any]) -> int:
        return int(learner.predict(tiny.scaled(torch.from_numpy(picture)[None])).argmax())

    ways = len(world.tiles) - 1
    tile = (job.seed * (ways // 3) + job.seed // 3) % ways
    flown = closed_loop.fly(env, policy, seconds=config.alone, tile=tile, seed=job.seed)
    env.close()
    return flown


def _learner(model: nn.Module, config: Config, setting: Setting) -> Learner:
    return Learner(
        model,
        torch.optim.Adam(model.parameters(), lr=config.lr, fused=True),
        loss=nn.CrossEntropyLoss(reduction="none"),
        when=Settled(),
        which=Hardest(config.buffer, balanced=setting.balanced) if setting.buffer else None,
        how=MAS(config.strength, penalty="relative") if setting.consolidate else None,
        repeats=1 if setting.epochs else config.repeats,
    )


def _batches(flights: list[record.Flight], job: Job) -> Iterable[tuple[Tensor, Tensor]]:
    """The time steps of a run: ten frames each, and more of them where all are there beforehand."""
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
    size = BATCH if setting.epochs else FRAMES
    rows = [part for order in orders for part in torch.split(order, size) if len(part) == size]
    return ((frames[part], actions[part]) for part in rows)


def _live(config: Config) -> Iterator[tuple[Tensor, Tensor]]:
    """Ten frames at a time from the simulator, corridor after corridor."""
    flown = (m for name in config.corridors for m in record.moments(name, config.flights))
    while len(part := list(islice(flown, FRAMES))) == FRAMES:
        yield torch.stack([m.picture for m in part]), torch.tensor([m.action for m in part])


def _evaluate(learner: Learner, tests: list[tuple[Tensor, Tensor]]) -> list[list[float]]:
    """For every corridor: the accuracy, and the mean of the accuracies over the actions."""
    found = []
    for frames, actions in tests:
        parts = (tiny.scaled(part) for part in torch.split(frames, 64))
        chosen = torch.cat([learner.predict(part).argmax(1) for part in parts])
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
    jobs = [Job(config, setting, seed) for setting in SETTINGS for seed in range(config.seeds)]
    runs = pool.run_kept(
        run_one,
        sorted(jobs, key=lambda job: not job.setting.epochs),  # what takes longest comes first
        _place,
        workers=config.workers,
        describe=lambda job: f"{job.setting.name}, {job.seed}",
    )
    results: dict[str, Any] = {
        "command": pool.command(_name(config), config),
        "config": _said(config),
        "versions": pool.versions(),
        "flights": [
            {key: value for key, value in row.items() if key != "file"} for row in recorded
        ],
        "aims": aims(config, runs),
        "summary": summary(config, runs),
        "runs": runs,
    }
    pool.write_json(config.out / "results.json", results)
    _write_report(config, results)
    _print(config, results)
    return results


def _name(config: Config) -> str:
    return type(config).__module__.rpartition(".")[2]


def _said(config: Config, setting: Setting | None = None) -> dict[str, Any]:
    """The options that a result depends on, or only those that one setting makes use of."""
    said = asdict(config)
    for name in ("out", "workers", "seeds"):
        said.pop(name)
    if setting is not None:
        uses = {
            "buffer": setting.buffer, "strength": setting.consolidate, "epochs": setting.epochs,
            "repeats": not setting.epochs, "live": setting.order == "as flown",
        }  # fmt: skip
        said = {name: value for name, value in said.items() if uses.get(name, True)}
    for name in ("out", "workers", "video", "corridors"):
        said["flights"].pop(name)
    said["flights"]["mark"] = record.place(config.flights, "A").parent.name
    return said


def _place(job: Job) -> Path:
    name = f"{job.setting.name} {job.seed}"
    return pool.place(job.config.out, name, _said(job.config, job.setting))


def summary(config: Config, runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean and standard deviation over the seeds, by setting."""
    rows = []
    for setting in SETTINGS:
        chosen = [one for one in runs if one["setting"] == setting.name]
        row: dict[str, Any] = {"setting": setting.name, "seeds": len(chosen)}
        for index, kind in enumerate(("accuracy", "weighted")):
            final = [[corridor[index] for corridor in one["final"]] for one in chosen]
            row[kind] = _spread([mean(one) for one in final])
            row[f"{kind} by corridor"] = {
                name: _spread([one[number] for one in final])
                for number, name in enumerate(config.corridors)
            }
        if any(one["just flown"] for one in chosen):
            row["weighted, just flown"] = _spread(
                [mean(corridor[1] for corridor in one["just flown"]) for one in chosen]
            )
        if config.alone:
            row |= _alone(chosen)
        rows.append(row)
    return rows


def _alone(runs: list[dict[str, Any]]) -> dict[str, list[float]]:
    """How the networks flew by themselves."""
    return {
        "collisions a minute": _spread(
            [
                sum(f["collisions"] for f in one["flown"])
                / sum(f["seconds"] for f in one["flown"])
                * 60
                for one in runs
            ]
        ),
        "metres before the first": _spread(
            [mean(f["first"] for f in one["flown"]) for one in runs]
        ),
    }


def _spread(values: list[float]) -> list[float]:
    return [round(mean(values), 4), round(stdev(values) if len(values) > 1 else 0.0, 4)]


def aims(config: Config, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """What the experiment is meant to show, in weighted accuracy, and what it does."""
    rows = {row["setting"]: row for row in summary(config, runs)}

    def gap(one: str, other: str, names: tuple[str, ...] = config.corridors) -> float:
        found = (rows[name]["weighted by corridor"] for name in (one, other))
        first, second = (mean(float(row[name][0]) for name in names) for row in found)
        return round(first - second, 4)

    pairs = {
        "normalized": ("online continual, normalized", "online, normalized"),
        "not normalized": ("online continual", "online"),
    }
    half = (len(config.corridors) + 1) // 2

    def by_seed(one: str, other: str) -> list[float]:
        """The gaps over all corridors, seed by seed."""
        ends = {
            (run["setting"], run["seed"]): mean(corridor[1] for corridor in run["final"])
            for run in runs
        }
        seeds = sorted(seed for setting, seed in ends if setting == one)
        return [round(ends[one, seed] - ends[other, seed], 4) for seed in seeds]

    return {
        "online, normalized, in the corridor just flown": rows["online, normalized"][
            "weighted, just flown"
        ][0],
        "offline joint": rows["offline joint"]["weighted"][0],
        "continual above online, all corridors": {k: gap(*v) for k, v in pairs.items()},
        "continual above online, all corridors, by seed": {
            k: by_seed(*v) for k, v in pairs.items()
        },
        "continual above online, first half": {
            k: gap(*v, config.corridors[:half]) for k, v in pairs.items()
        },
        "continual above online, last two": {
            k: gap(*v, config.corridors[-2:]) for k, v in pairs.items()
        },
        "normalized above not": {
            name: gap(f"{name}, normalized", name) for name in ("online", "online continual")
        },
    }


# What people look at


def _write_report(config: Config, results: dict[str, Any]) -> None:
    flights = {name: record.load(config.flights, name).frames for name in config.corridors}
    drawn = {
        "views.png": corridors_figures.views(flights),
        "accuracy.png": corridors_figures.curves(config.corridors, results["runs"], 0),
        "weighted.png": corridors_figures.curves(config.corridors, results["runs"], 1),
        "final.png": corridors_figures.bars(results["summary"]),
    }
    if config.alone:
        drawn["alone.png"] = corridors_figures.alone(results["summary"])
    for name, figure in drawn.items():
        report.save(figure, config.out / name)
    report.write_html(
        config.out / "report.html",
        title=f"Collision avoidance in flight, {len(config.corridors)} corridors",
        introduction=" ".join((Config.__doc__ or "").split()),
        tables={
            f"After the last corridor, mean ± standard deviation over {config.seeds} seeds": table(
                results["summary"]
            ),
            "Weighted accuracy by corridor, in %": table_by_corridor(results["summary"]),
        },
        figures={name: (config.out / name, corridors_figures.CAPTIONS[name]) for name in drawn},
        details={key: results[key] for key in ("command", "config", "versions", "flights", "aims")},
    )


COLUMNS = {
    "accuracy": 100, "weighted": 100, "weighted, just flown": 100, "collisions a minute": 1,
    "metres before the first": 1,
}  # fmt: skip


def table(rows: list[dict[str, Any]]) -> list[list[str]]:
    """The summary as text, a line a setting."""

    def cell(row: dict[str, Any], name: str) -> str:
        if name not in row:
            return ""
        return " ± ".join(f"{COLUMNS[name] * value:.1f}" for value in row[name])

    names = [name for name in COLUMNS if any(name in row for row in rows)]
    heading = ["", *(f"{name} (%)" if COLUMNS[name] == 100 else name for name in names)]
    return [heading, *([row["setting"], *(cell(row, name) for name in names)] for row in rows)]


def table_by_corridor(rows: list[dict[str, Any]]) -> list[list[str]]:
    """The weighted accuracies as text, a line a setting, a column a corridor."""
    names = list(rows[0]["weighted by corridor"])
    return [["", *names]] + [
        [
            row["setting"],
            *(f"{100 * row['weighted by corridor'][name][0]:.0f}" for name in names),
        ]
        for row in rows
    ]


def _print(config: Config, results: dict[str, Any]) -> None:
    console = Console()
    pool.print_table(f"After {', '.join(config.corridors)}", table(results["summary"]))
    for name, value in results["aims"].items():
        console.print(f"{name}: {value}")
    console.print(f"report: {config.out / 'report.html'}")
