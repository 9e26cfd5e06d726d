"""Recorded flights: the expert flies through corridors, and what it saw and did is kept."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import mujoco
import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from taskfree import arguments
from taskfree.robots import film
from taskfree.robots.camera import Kind
from taskfree.robots.corridor import Corridor
from taskfree.robots.flight import CorridorEnv
from taskfree.robots.worlds import BENDS, THEMES, THINGS, TILES, corridor

MADE = {"ray": 2, "gl": 3}
"""Raised when worlds, a camera or the expert change: older recordings are then made again."""
CACHE = Path.home() / ".cache/taskfree/corridors"


@dataclass(frozen=True)
class Config:
    """The expert flies through the corridors; pictures, scans and its actions are kept.

    A set that is there already, made with the same settings and versions, is not made again.
    """

    out: Path = CACHE
    """where the flights are kept"""
    corridors: tuple[str, ...] = tuple(THEMES)
    """which of the ten, A to J"""
    seed: int = 0
    """of the worlds and of the laser's noise; the settings of experiments were chosen on seed 1"""
    camera: Kind = "ray"
    """ray needs nothing; gl needs EGL or OSMesa and is faster. Their pictures differ."""
    tiles: int = TILES
    """the length of a corridor in tiles of 3 m"""
    bends: int = BENDS
    """how many of them turn"""
    things: int = THINGS
    """how many things stand in it, at most"""
    video: bool = False
    """also write each flight as a video: the camera, the laser from above, the action"""
    workers: int | None = field(default=None)
    """processes; as many as there are cores if not given"""

    def __post_init__(self) -> None:
        for name in self.corridors:
            arguments.one_of("corridors", name, tuple(THEMES))
        for name, least in (("seed", 0), ("tiles", 3), ("bends", 0), ("things", 0)):
            arguments.whole(name, getattr(self, name), least=least)
        if self.bends > self.tiles - 2:
            raise ValueError(
                f"bends must be at most tiles - 2, for the first and the last are straight, got "
                f"{self.bends} bends in {self.tiles} tiles"
            )


class Flight(NamedTuple):
    """One corridor, frame by frame."""

    frames: Tensor
    """Pictures as bytes, [n, 128, 128, 3]."""
    actions: Tensor
    """What the expert did: 0 left, 1 straight on, 2 right."""
    scans: Tensor
    """The laser's beams in metres, [n, 360]."""
    collisions: int
    """How often the expert hit something; it then went on from the middle of the tile."""


class Moment(NamedTuple):
    """A tenth of a second of a flight."""

    picture: Tensor
    action: int
    scan: Tensor
    collided: bool
    """Whether the action ended in a collision."""


def moments(name: str, config: Config) -> Iterator[Moment]:
    """Have the expert fly through one corridor, straight from the simulator."""
    env = CorridorEnv(world(name, config), camera=config.camera)
    try:
        picture, info = env.reset(seed=config.seed)
        for _ in range(100 * config.tiles):
            seen, scan, action = picture.copy(), info["scan"], info["expert"]
            picture, _, ended, _, info = env.step(action)
            collided = info["collision"]
            yield Moment(torch.from_numpy(seen), action, torch.from_numpy(scan).float(), collided)
            if collided:
                picture, info = env.carry_on()
            elif ended:
                return
    finally:
        env.close()


def world(name: str, config: Config) -> Corridor:
    """The corridor of that name that a config means."""
    return corridor(name, config.seed, tiles=config.tiles, bends=config.bends, things=config.things)


def fly(name: str, config: Config) -> Flight:
    """Have the expert fly through one corridor, and keep it all."""
    flown = list(moments(name, config))
    return Flight(
        torch.stack([moment.picture for moment in flown]),
        torch.tensor([moment.action for moment in flown]),
        torch.stack([moment.scan for moment in flown]),
        sum(moment.collided for moment in flown),
    )


def place(config: Config, name: str) -> Path:
    """The file of a flight; its name holds what made it, so that another set is another file."""
    made = {
        key: value
        for key, value in asdict(config).items()
        if key not in ("out", "corridors", "video", "workers")
    }
    made |= {
        "made": MADE[config.camera],
        "taskfree": version("taskfree"),
        "mujoco": mujoco.__version__,
        "numpy": np.__version__,
    }
    mark = hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()[:12]
    return config.out / mark / f"{name}.safetensors"


def record(name: str, config: Config) -> dict[str, Any]:
    """Fly through one corridor, if that was not done before; what is kept of it."""
    file = place(config, name)
    if not file.exists():
        flight = fly(name, config)
        tensors = {key: getattr(flight, key) for key in ("frames", "actions", "scans")}
        digest = _digest(tensors)
        manifest = {"corridor": name, "collisions": flight.collisions, "sha256": digest}
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_suffix(".writing")
        save_file(tensors, unfinished, {"manifest": json.dumps(manifest)})
        unfinished.replace(file)
    flight = load(config, name)
    shares = torch.bincount(flight.actions, minlength=3) / len(flight.actions)
    return {
        "corridor": name,
        "frames": len(flight.frames),
        "collisions": flight.collisions,
        "left, straight, right": [round(share, 3) for share in shares.tolist()],
        "sha256": _digest({key: getattr(flight, key) for key in ("frames", "actions", "scans")}),
        "file": str(file),
    }


def load(config: Config, name: str) -> Flight:
    """A recorded flight."""
    file = place(config, name)
    damaged = f"{file} is damaged: remove it, and record it again"
    try:
        with safe_open(file, "pt") as content:
            manifest = json.loads(content.metadata()["manifest"])
            tensors = {key: content.get_tensor(key) for key in ("frames", "actions", "scans")}
    except (SafetensorError, TypeError, KeyError) as error:
        raise ValueError(damaged) from error
    if _digest(tensors) != manifest["sha256"]:
        raise ValueError(damaged)
    return Flight(**tensors, collisions=manifest["collisions"])


def _digest(tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for key in sorted(tensors):
        digest.update(tensors[key].numpy().tobytes())
    return digest.hexdigest()


def run(config: Config) -> list[dict[str, Any]]:
    """Record all corridors, in several processes, and say what was recorded and how fast."""
    from rich.console import Console
    from rich.table import Table

    from taskfree.experiments import pool

    place(config, "A").parent.mkdir(parents=True, exist_ok=True)
    started = perf_counter()
    new = sum(not place(config, name).exists() for name in config.corridors)
    rows = pool.run_all(
        _record_one,
        [(name, config) for name in config.corridors],
        workers=config.workers,
        describe=lambda job: f"corridor {job[0]}",
    )
    seconds = perf_counter() - started
    frames = sum(row["frames"] for row in rows)
    console, table = Console(), Table(box=None, header_style="bold underline")
    for heading in ("corridor", "frames", "collisions", "left", "straight", "right"):
        table.add_column(heading, justify="right")
    for row in rows:
        shares = [f"{100 * share:.0f} %" for share in row["left, straight, right"]]
        table.add_row(row["corridor"], str(row["frames"]), str(row["collisions"]), *shares)
    console.print(table)
    console.print(f"{frames} frames in {place(config, 'A').parent}")
    if new == len(rows):
        console.print(f"{frames / seconds:.0f} control steps a second")
    if config.video:
        for row in rows:
            file = Path(row["file"]).with_suffix(".mp4")
            _write_video(load(config, row["corridor"]), file)
            console.print(f"video: {file}")
    return rows


def _record_one(job: tuple[str, Config]) -> dict[str, Any]:
    return record(*job)


def _write_video(flight: Flight, file: Path) -> None:
    told = zip(flight.frames.numpy(), flight.scans.numpy(), flight.actions.tolist(), strict=True)
    film.write(file, itertools.starmap(film.Shot, told), rate=10)
