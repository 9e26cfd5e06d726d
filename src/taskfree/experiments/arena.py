"""On policy: a wheeled robot learns in the arena while it drives (paper section 4.4)."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev
from time import perf_counter
from typing import Any

import torch
from gymnasium.wrappers import TimeLimit
from rich.console import Console
from safetensors.torch import load_file, save_file
from torch import nn

from taskfree import arguments, report
from taskfree.experiments import arena_figures, pool
from taskfree.how import MAS
from taskfree.learner import Learner
from taskfree.onpolicy import OnPolicy
from taskfree.robots import ArenaEnv, film, tiny
from taskfree.robots.camera import Kind
from taskfree.robots.laser import Action
from taskfree.which import Hardest

FRAMES, HERTZ = 10, 5
"""Frames a gradient step, and a second."""
MINUTE = 60 * HERTZ
"""Frames in a minute."""


@dataclass(frozen=True)
class Config:
    """A wheeled robot drives by its own network; a laser's expert only says what it would do.

    The network is first trained on policy in one arena, without continual learning, and then learns
    in another. Every setting of a seed begins there, with the same weights. A robot that drives
    well goes round and round one way: now and then it is set down anew, facing either way.
    """

    out: Path = Path("results/arena")
    """where results.json, figures, films and report.html go; finished runs are not repeated"""
    seeds: int = 8
    """how many seeds each setting runs with"""
    first_seed: int = 0
    """the first of them; the settings were chosen on seeds from 100 on"""
    steps: int = 300
    """gradient steps in the second arena, one every ten frames"""
    before: int = 5
    """gradient steps in the first arena"""
    after: int = 90
    """the learned network then drives for as long as so many steps take, without learning"""
    set_down: int = 30
    """after so many gradient steps the robot is set down anew, facing either way around"""
    lr: float = 0.003
    """learning rate of SGD"""
    repeats: int = 1
    """updates a gradient step"""
    recent: int = 40
    """how many of the newest frames a step learns from"""
    buffer: int = 30
    """capacity of the hard buffer"""
    strength: float = 0.01
    """strength of the penalty, without units"""
    camera: Kind = "ray"
    """ray needs nothing; gl needs EGL or OSMesa and is faster. Their pictures differ."""
    workers: int | None = None
    """processes; as many as there are cores if not given"""

    def __post_init__(self) -> None:
        arguments.whole("first_seed", self.first_seed, least=0)
        for name in (
            "seeds",
            "steps",
            "before",
            "after",
            "set_down",
            "repeats",
            "recent",
            "buffer",
        ):
            arguments.whole(name, getattr(self, name), least=1)
        arguments.number("lr", self.lr, above=0)
        MAS(self.strength)


@dataclass(frozen=True)
class Setting:
    """One way to drive."""

    name: str
    policy: str = "network"
    """`"network"`, `"straight"` or `"expert"`."""
    consolidate: bool = False
    balanced: bool = False


ONLINE, CONTINUAL = "online", "online continual"
SETTINGS = (
    Setting("straight on", policy="straight"),
    Setting("expert", policy="expert"),
    Setting(ONLINE),
    Setting(CONTINUAL, consolidate=True),
    Setting(f"{ONLINE}, normalized", balanced=True),
    Setting(f"{CONTINUAL}, normalized", consolidate=True, balanced=True),
)
POLICIES = {
    "network": None,
    "straight": lambda *_: int(Action.STRAIGHT),
    "expert": lambda _, info: info["expert"],
}


@dataclass(frozen=True)
class Job:
    """One setting with one seed; None is the training before."""

    config: Config
    setting: Setting | None
    seed: int


def _learner(model: nn.Module, config: Config, setting: Setting) -> Learner:
    return Learner(
        model,
        torch.optim.SGD(model.parameters(), lr=config.lr),
        loss=nn.CrossEntropyLoss(reduction="none"),
        which=Hardest(config.buffer, balanced=setting.balanced),
        how=MAS(config.strength, penalty="relative") if setting.consolidate else None,
        repeats=config.repeats,
    )


def _env(name: str, config: Config) -> Any:
    return TimeLimit(ArenaEnv(name, camera=config.camera), FRAMES * config.set_down)


def train_before(job: Job) -> None:
    """Train a network on policy in the first arena, and keep it."""
    file, config = _place(job), job.config
    model = tiny.network(seed=job.seed)
    env = _env("simulated", config)
    learner = _learner(model, config, SETTINGS[2])
    acting = OnPolicy(env, learner, prepare=tiny.scaled, recent=config.recent, seed=1000 + job.seed)
    while learner.step < config.before:
        acting.step()
    env.close()
    unfinished = file.with_suffix(".writing")
    save_file(model.state_dict(), unfinished)
    unfinished.replace(file)


def run_one(job: Job) -> dict[str, Any]:
    """Drive and learn in the second arena with one setting and one seed."""
    config, setting = job.config, job.setting
    assert setting is not None
    started = perf_counter()
    model = tiny.network()
    model.load_state_dict(load_file(_place(Job(config, None, job.seed))))
    learner = _learner(model, config, setting) if setting.policy == "network" else None
    env = _env("lab", config)
    policy = POLICIES[setting.policy]
    acting = OnPolicy(
        env, learner, prepare=tiny.scaled, recent=config.recent, policy=policy, seed=job.seed
    )
    path, hits, right, events = [], [], 0, []
    shots: list[film.Shot] = []
    while acting.frames < FRAMES * config.steps:
        seen, scan = acting.seen, acting.info["scan"]
        moment = acting.step()
        words = f"{setting.name}: {acting.frames / HERTZ:.0f} s, {acting.collisions} collisions"
        shots.append(film.Shot(seen, scan, moment.action, moment.expert, words))
        del shots[MINUTE:-MINUTE]
        path.append([round(value, 3) for value in moment.info["place"][:2]])
        right += moment.action == moment.expert
        if moment.collision:
            hits.append(acting.frames)
        if moment.report is not None and moment.report.event is not None:
            told = moment.report.event
            events.append({"step": told.step, "kind": told.kind, "text": told.text})
    learned = perf_counter()
    collisions = _drive_on(job, env, learner, policy)
    env.close()
    if setting == SETTINGS[-1] and job.seed == config.first_seed:
        film.write(config.out / "first-minute.mp4", shots[:MINUTE], rate=HERTZ)
        film.write(config.out / "last-minute.mp4", shots[-MINUTE:], rate=HERTZ)
    weights = b"".join(value.numpy().tobytes() for value in model.state_dict().values())
    return {
        "setting": setting.name, "seed": job.seed, "frames": acting.frames,
        "collisions": hits, "agreement": round(right / acting.frames, 4),
        "collisions a step after": round(collisions / config.after, 4),
        "events": events, "path": path, "weights": hashlib.sha256(weights).hexdigest(),
        "seconds": round(learned - started, 1),
    }  # fmt: skip


def _drive_on(job: Job, env: Any, learner: Learner | None, policy: Any) -> int:
    """How often it collides when it has learned and learns no more."""

    def network(seen: Any, _: dict[str, Any]) -> int:
        assert learner is not None
        return int(learner.predict(tiny.scaled(torch.as_tensor(seen)[None])).argmax())

    acting = OnPolicy(env, None, policy=policy or network, seed=2000 + job.seed)
    for _ in range(FRAMES * job.config.after):
        acting.step()
    return acting.collisions


def _place(job: Job) -> Path:
    """Where a run is kept, or the network of the training before."""
    said = asdict(job.config)
    for name in ("out", "workers", "seeds", "first_seed"):
        said.pop(name)
    if job.setting is None:
        for name in ("steps", "after", "strength"):
            said.pop(name)
        return pool.place(job.config.out, f"before {job.seed}", said, end="safetensors")
    return pool.place(job.config.out, f"{job.setting.name} {job.seed}", said)


def run(config: Config) -> dict[str, Any]:
    """Train before, run every setting that is not done, and write what was found."""
    (config.out / "runs").mkdir(parents=True, exist_ok=True)
    seeds = range(config.first_seed, config.first_seed + config.seeds)
    pool.run_all(
        train_before,
        [job for seed in seeds if not _place(job := Job(config, None, seed)).exists()],
        workers=config.workers,
        describe=lambda job: f"before, {job.seed}",
    )
    runs = pool.run_kept(
        run_one,
        [Job(config, setting, seed) for setting in SETTINGS for seed in seeds],
        _place,
        workers=config.workers,
        describe=lambda job: f"{job.setting.name}, {job.seed}" if job.setting else "",
    )
    rows = summary(config, runs)
    results: dict[str, Any] = {
        "command": pool.command("arena", config),
        "config": {k: v for k, v in asdict(config).items() if k not in ("out", "workers")},
        "versions": pool.versions(),
        "differences": differences(config, runs),
        "summary": rows,
        "runs": [{key: one[key] for key in one if key != "path"} for one in runs],
    }
    pool.write_json(config.out / "results.json", results)
    figures = {
        "collisions.png": arena_figures.collisions(runs, config.steps),
        "total.png": arena_figures.total(rows),
        "paths.png": arena_figures.paths(runs),
    }
    for name, figure in figures.items():
        report.save(figure, config.out / name)
    report.write_html(
        config.out / "report.html",
        title="On policy: a wheeled robot learns while it drives",
        introduction=" ".join((Config.__doc__ or "").split()),
        tables={
            f"Collisions a gradient step, {config.seeds} seeds": table(rows),
            "What continual learning has more than online": table(results["differences"]),
        },
        figures={name: (config.out / name, arena_figures.CAPTIONS[name]) for name in figures},
        details={key: results[key] for key in ("command", "config", "versions")},
    )
    _print(results, config)
    return results


def _measures(config: Config, one: dict[str, Any]) -> dict[str, float]:
    """Collisions a gradient step in one run, and how often it did what the expert would have."""
    late = [at for at in one["collisions"] if at > 2 / 3 * FRAMES * config.steps]
    return {
        "in all": len(one["collisions"]) / config.steps,
        "in the last third": 3 * len(late) / config.steps,
        "after learning": one["collisions a step after"],
        "acts as the expert would": one["agreement"],
    }


def summary(config: Config, runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The measures over the seeds: mean and the half width of a 95 % interval."""
    rows = []
    for setting in SETTINGS:
        found = [_measures(config, one) for one in runs if one["setting"] == setting.name]
        rows.append({"setting": setting.name} | _intervals(found))
    return rows


def differences(config: Config, runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What continual learning has more than online learning, seed by seed, with intervals."""
    found = {(one["setting"], one["seed"]): _measures(config, one) for one in runs}
    seeds = sorted({seed for _, seed in found})
    rows = []
    for name, end in (("as it comes", ""), ("normalized", ", normalized")):
        pairs = [(found[CONTINUAL + end, seed], found[ONLINE + end, seed]) for seed in seeds]
        more = [{key: ours[key] - theirs[key] for key in ours} for ours, theirs in pairs]
        rows.append({"setting": f"continual above online, {name}"} | _intervals(more))
    return rows


def _intervals(measures: list[dict[str, float]]) -> dict[str, list[float]]:
    return {key: _interval([one[key] for one in measures]) for key in measures[0]}


STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306,
           10: 2.262}  # fmt: skip
"""Student's t for 95 %, by the number of seeds."""


def _interval(values: list[float]) -> list[float]:
    count = len(values)
    half = STUDENT.get(count, 2.1) * stdev(values) / count**0.5 if count > 1 else 0.0
    return [round(mean(values), 4), round(half, 4)]


def table(rows: list[dict[str, Any]]) -> list[list[str]]:
    """The summary as text."""
    columns = [name for name in rows[0] if name != "setting"]
    return [["", *columns]] + [
        [row["setting"], *(" ± ".join(f"{value:.3f}" for value in row[name]) for name in columns)]
        for row in rows
    ]


def _print(results: dict[str, Any], config: Config) -> None:
    titles = {"summary": "Collisions a gradient step", "differences": "Continual above online"}
    for key, title in titles.items():
        pool.print_table(f"{title} (95 % interval)", table(results[key]))
    Console().print(f"report: {config.out / 'report.html'}")
