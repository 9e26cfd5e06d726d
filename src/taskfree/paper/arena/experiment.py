"""On-policy learning: a wheeled robot learns in an arena while it drives (paper section 4.4)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from gymnasium.wrappers import TimeLimit
from safetensors.torch import load_file, save_file
from torch import nn

from taskfree._core import validation
from taskfree._core.files import atomic_write
from taskfree.defaults import STRENGTH
from taskfree.how import MAS
from taskfree.learner import Learner
from taskfree.onpolicy import OnPolicy
from taskfree.paper import runner, statistics
from taskfree.paper.arena import figures
from taskfree.paper.arena.env import ArenaEnv
from taskfree.paper.cache import run_file
from taskfree.paper.publish import publish, settings
from taskfree.paper.simulation import film, tiny_v2
from taskfree.paper.simulation.camera import Kind
from taskfree.robot import Action
from taskfree.which import Hardest

FRAMES, HERTZ = 10, 5
"""Frames per gradient step, and per second."""
MINUTE = 60 * HERTZ
"""Frames per minute."""


@dataclass(frozen=True)
class ArenaConfig:
    """A wheeled robot is driven by its own network; an expert only labels the images.

    The network is first trained on policy in one arena, without continual learning, and then learns
    in another. All settings of a seed start there from the same weights. A robot that drives well
    keeps circling in one direction, so its pose is reset from time to time, facing either way.
    """

    out: Path = Path("results/arena")
    """where results.json, figures, videos and report.html go; finished runs are not repeated"""
    seeds: int = 8
    """seeds per setting"""
    first_seed: int = 0
    """the first seed; the settings were chosen on seeds from 100 on"""
    steps: int = 300
    """gradient steps in the second arena, one every ten frames"""
    pretrain_steps: int = 5
    """gradient steps in the first arena"""
    drive_steps: int = 90
    """then the trained network drives without learning for as long as this many steps take"""
    reset_steps: int = 30
    """gradient steps after which the robot's pose is reset"""
    lr: float = 0.003
    """learning rate of SGD"""
    repeats: int = 1
    """updates per gradient step"""
    recent_frames: int = 40
    """newest frames that a gradient step learns from, in addition to the hard buffer"""
    buffer_size: int = 30
    """capacity of the hard buffer"""
    strength: float = STRENGTH
    """strength of the penalty, dimensionless"""
    camera: Kind = "ray"
    """ray needs no system package; gl needs EGL or OSMesa and is faster. Their images differ."""
    workers: int | None = None
    """processes; one per core by default"""

    def __post_init__(self) -> None:
        validation.integer("first_seed", self.first_seed, least=0)
        for name in (
            "seeds", "steps", "pretrain_steps", "drive_steps", "reset_steps", "repeats",
            "recent_frames", "buffer_size",
        ):  # fmt: skip
            validation.integer(name, getattr(self, name), least=1)
        validation.number("lr", self.lr, above=0)
        MAS(self.strength)


@dataclass(frozen=True)
class ArenaSetting:
    """A way to drive."""

    name: str
    policy: str = "network"
    """`"network"`, `"straight"` or `"expert"`."""
    consolidate: bool = False
    balanced: bool = False


ONLINE, CONTINUAL = "online", "online continual"
SETTINGS = (
    ArenaSetting("straight on", policy="straight"),
    ArenaSetting("expert", policy="expert"),
    ArenaSetting(ONLINE),
    ArenaSetting(CONTINUAL, consolidate=True),
    ArenaSetting(f"{ONLINE}, class-balanced", balanced=True),
    ArenaSetting(f"{CONTINUAL}, class-balanced", consolidate=True, balanced=True),
)
POLICIES = {
    "network": None,
    "straight": lambda *_: int(Action.STRAIGHT),
    "expert": lambda _, info: info["expert"],
}


@dataclass(frozen=True)
class ArenaJob:
    """A setting with a seed; setting None is the pretraining."""

    config: ArenaConfig
    setting: ArenaSetting | None
    seed: int


def _learner(model: nn.Module, config: ArenaConfig, setting: ArenaSetting) -> Learner:
    return Learner(
        model,
        torch.optim.SGD(model.parameters(), lr=config.lr),
        loss=nn.CrossEntropyLoss(reduction="none"),
        which=Hardest(config.buffer_size, balanced=setting.balanced),
        how=MAS(config.strength, penalty="relative") if setting.consolidate else None,
        repeats=config.repeats,
    )


def _env(name: str, config: ArenaConfig) -> Any:
    return TimeLimit(ArenaEnv(name, camera=config.camera), FRAMES * config.reset_steps)


def pretrain(job: ArenaJob) -> None:
    """Train a network on policy in the first arena, and save it."""
    config = job.config
    model = tiny_v2.network(seed=job.seed)
    env = _env("simulated", config)
    learner = _learner(model, config, SETTINGS[2])
    acting = OnPolicy(
        env, learner, prepare=tiny_v2.standardize, recent=config.recent_frames, seed=1000 + job.seed
    )
    while learner.step < config.pretrain_steps:
        acting.step()
    env.close()
    with atomic_write(_file(job)) as unfinished:
        save_file(model.state_dict(), unfinished)


def run_one(job: ArenaJob) -> dict[str, Any]:
    """Drive and learn in the second arena with a setting and a seed."""
    config, setting = job.config, job.setting
    assert setting is not None
    started = perf_counter()
    model = tiny_v2.network()
    model.load_state_dict(load_file(_file(ArenaJob(config, None, job.seed))))
    learner = _learner(model, config, setting) if setting.policy == "network" else None
    env = _env("lab", config)
    policy = POLICIES[setting.policy]
    acting = OnPolicy(
        env,
        learner,
        prepare=tiny_v2.standardize,
        recent=config.recent_frames,
        policy=policy,
        seed=job.seed,
    )
    path, hits, right, events = [], [], 0, []
    shots: list[film.Shot] = []
    while acting.frames < FRAMES * config.steps:
        image, scan = acting.observation, acting.info["scan"]
        moment = acting.step()
        caption = f"{setting.name}: {acting.frames / HERTZ:.0f} s, {acting.collisions} collisions"
        shots.append(film.Shot(image, scan, moment.action, moment.expert, caption))
        del shots[MINUTE:-MINUTE]
        path.append([round(value, 3) for value in moment.info["pose"][:2]])
        right += moment.action == moment.expert
        if moment.collision:
            hits.append(acting.frames)
        if moment.report is not None and moment.report.event is not None:
            event = moment.report.event
            events.append({"step": event.step, "kind": event.kind, "text": event.text})
    learned = perf_counter()
    collisions = _drive_after(job, env, learner, policy)
    env.close()
    if setting == SETTINGS[-1] and job.seed == config.first_seed:
        film.write(config.out / "first-minute.mp4", shots[:MINUTE], rate=HERTZ)
        film.write(config.out / "last-minute.mp4", shots[-MINUTE:], rate=HERTZ)
    weights = b"".join(value.numpy().tobytes() for value in model.state_dict().values())
    return {
        "setting": setting.name, "seed": job.seed, "frames": acting.frames,
        "collisions": hits, "agreement": round(right / acting.frames, 4),
        "collisions per step after learning": round(collisions / config.drive_steps, 4),
        "events": events, "path": path, "weights": hashlib.sha256(weights).hexdigest(),
        "seconds": round(learned - started, 1),
    }  # fmt: skip


def _drive_after(job: ArenaJob, env: Any, learner: Learner | None, policy: Any) -> int:
    """The number of collisions after learning, while it no longer learns."""

    def network_policy(image: Any, _: dict[str, Any]) -> int:
        assert learner is not None
        return int(learner.predict(tiny_v2.standardize(torch.as_tensor(image)[None])).argmax())

    acting = OnPolicy(env, None, policy=policy or network_policy, seed=2000 + job.seed)
    for _ in range(FRAMES * job.config.drive_steps):
        acting.step()
    return acting.collisions


def _file(job: ArenaJob) -> Path:
    """The file of a run, or of the pretrained network."""
    used = settings(job.config, without=("seeds", "first_seed"))
    if job.setting is None:
        used = {k: v for k, v in used.items() if k not in ("steps", "drive_steps", "strength")}
        return run_file(job.config.out, f"pretrained {job.seed}", used, suffix=".safetensors")
    return run_file(job.config.out, f"{job.setting.name} {job.seed}", used)


def run(config: ArenaConfig) -> dict[str, Any]:
    """Pretrain, run every setting that is not finished, and publish the results."""
    (config.out / "runs").mkdir(parents=True, exist_ok=True)
    seeds = range(config.first_seed, config.first_seed + config.seeds)
    runner.run_all(
        pretrain,
        [job for seed in seeds if not _file(job := ArenaJob(config, None, seed)).exists()],
        workers=config.workers,
        describe=lambda job: f"pretraining, {job.seed}",
    )
    runs = runner.run_cached(
        run_one,
        [ArenaJob(config, setting, seed) for setting in SETTINGS for seed in seeds],
        _file,
        workers=config.workers,
        describe=lambda job: f"{job.setting.name}, {job.seed}" if job.setting else "",
    )
    rows, gaps = summary(config, runs), differences(config, runs)
    drawn = {
        "collisions.png": figures.collisions(runs, config.steps),
        "total.png": figures.total(rows),
        "paths.png": figures.paths(runs),
    }
    return publish(
        "arena",
        config,
        title="On-policy learning: a wheeled robot learns while it drives",
        found={
            "differences": gaps,
            "summary": rows,
            "runs": [{key: one[key] for key in one if key != "path"} for one in runs],
        },
        tables={
            f"Collisions per gradient step (95 % interval), {config.seeds} seeds": table(rows),
            "Continual minus online, seed by seed (95 % interval)": table(gaps),
        },
        figures={name: (figure, figures.CAPTIONS[name]) for name, figure in drawn.items()},
    )


def _measures(config: ArenaConfig, one: dict[str, Any]) -> dict[str, float]:
    """Collisions per gradient step in a run, and the agreement with the expert."""
    late = [at for at in one["collisions"] if at > 2 / 3 * FRAMES * config.steps]
    return {
        "overall": len(one["collisions"]) / config.steps,
        "in the last third": 3 * len(late) / config.steps,
        "after learning": one["collisions per step after learning"],
        "agreement with the expert": one["agreement"],
    }


def summary(config: ArenaConfig, runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The measures over the seeds: mean and half the width of a 95 % interval."""
    rows = []
    for setting in SETTINGS:
        found = [_measures(config, one) for one in runs if one["setting"] == setting.name]
        rows.append({"setting": setting.name} | _intervals(found))
    return rows


def differences(config: ArenaConfig, runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Continual minus online learning, seed by seed, with intervals."""
    found = {(one["setting"], one["seed"]): _measures(config, one) for one in runs}
    seeds = sorted({seed for _, seed in found})
    rows = []
    for end in ("", ", class-balanced"):
        pairs = [(found[CONTINUAL + end, seed], found[ONLINE + end, seed]) for seed in seeds]
        gaps = [{key: ours[key] - theirs[key] for key in ours} for ours, theirs in pairs]
        rows.append({"setting": f"continual minus online{end}"} | _intervals(gaps))
    return rows


def _intervals(measures: list[dict[str, float]]) -> dict[str, list[float]]:
    return {
        key: statistics.mean_and_spread([one[key] for one in measures], "interval")
        for key in measures[0]
    }


def table(rows: list[dict[str, Any]]) -> list[list[str]]:
    """The summary as text."""
    columns = [name for name in rows[0] if name != "setting"]
    return [["", *columns]] + [
        [row["setting"], *(statistics.text(row[name], 1, 3) for name in columns)] for row in rows
    ]
