"""Recorded flights: what the expert observed and did in each corridor."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import mujoco
import numpy as np
import torch
from rich.console import Console
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from taskfree._core import validation
from taskfree._core.files import atomic_write
from taskfree.paper import runner
from taskfree.paper.cache import cache_key
from taskfree.paper.corridors.env import CorridorEnv
from taskfree.paper.corridors.themes import BENDS, OBSTACLES, THEMES, TILES, corridor
from taskfree.paper.corridors.world import Corridor
from taskfree.paper.publish import print_table, settings
from taskfree.paper.simulation import film
from taskfree.paper.simulation.camera import Kind

MADE = {"ray": 2, "gl": 3}
"""By camera: increased when the worlds, the camera or the expert change, to record again."""
CACHE = Path.home() / ".cache/taskfree/corridors"


@dataclass(frozen=True)
class Recording:
    """Record the expert's flights through the corridors: images, scans and actions.

    A flight that was recorded with the same settings and versions is not recorded again.
    """

    out: Path = CACHE
    """where the flights are stored"""
    corridors: tuple[str, ...] = tuple(THEMES)
    """which of the ten, A to J"""
    seed: int = 0
    """seed of the worlds and of the laser's noise; experiments were tuned on seed 1"""
    camera: Kind = "ray"
    """ray needs no system package; gl needs EGL or OSMesa and is faster. Their images differ."""
    tiles: int = TILES
    """length of a corridor, in tiles of 3 m"""
    bends: int = BENDS
    """tiles that turn"""
    obstacles: int = OBSTACLES
    """obstacles per corridor, at most"""
    video: bool = False
    """also write each flight as a video: camera, laser from above, action"""
    workers: int | None = None
    """processes; one per core by default"""

    def __post_init__(self) -> None:
        for name in self.corridors:
            validation.choice("corridors", name, tuple(THEMES))
        for name, least in (("seed", 0), ("tiles", 3), ("bends", 0), ("obstacles", 0)):
            validation.integer(name, getattr(self, name), least=least)
        if self.bends > self.tiles - 2:
            raise ValueError(
                "bends must be at most tiles - 2, as the first and last tile are straight, got "
                f"{self.bends} bends in {self.tiles} tiles"
            )


class Flight(NamedTuple):
    """A flight through a corridor, frame by frame."""

    frames: Tensor
    """Images of bytes, [n, 128, 128, 3]."""
    actions: Tensor
    """The expert's actions: 0 left, 1 straight on, 2 right."""
    scans: Tensor
    """The laser's distances in metres, [n, 360]."""
    collisions: int
    """How often the expert collided; it then continued from the centre of the tile."""


class FlightMoment(NamedTuple):
    """One control step of a flight: a tenth of a second."""

    image: Tensor
    action: int
    scan: Tensor
    collided: bool
    """Whether the action ended in a collision."""


def moments(name: str, config: Recording) -> Iterator[FlightMoment]:
    """Let the expert fly through a corridor; yields the frames directly from the simulator."""
    env = CorridorEnv(world(name, config), camera=config.camera)
    try:
        image, info = env.reset(seed=config.seed)
        for _ in range(100 * config.tiles):
            before, scan, action = image.copy(), info["scan"], info["expert"]
            image, _, ended, _, info = env.step(action)
            collided = info["collision"]
            yield FlightMoment(
                torch.from_numpy(before), action, torch.from_numpy(scan).float(), collided
            )
            if collided:
                image, info = env.recover()
            elif ended:
                return
    finally:
        env.close()


def world(name: str, config: Recording) -> Corridor:
    """The corridor of that name, as configured."""
    return corridor(
        name, config.seed, tiles=config.tiles, bends=config.bends, obstacles=config.obstacles
    )


def fly(name: str, config: Recording) -> Flight:
    """Let the expert fly through a corridor, and collect all frames."""
    flown = list(moments(name, config))
    return Flight(
        torch.stack([moment.image for moment in flown]),
        torch.tensor([moment.action for moment in flown]),
        torch.stack([moment.scan for moment in flown]),
        sum(moment.collided for moment in flown),
    )


def file(config: Recording, name: str) -> Path:
    """The file of a flight; the folder's name is a key of the settings and versions."""
    key = cache_key(
        settings(config, without=("corridors",))
        | {
            "made": MADE[config.camera],
            "taskfree": version("taskfree"),
            "mujoco": mujoco.__version__,
            "numpy": np.__version__,
        }
    )
    return config.out / key / f"{name}.safetensors"


def record(name: str, config: Recording) -> dict[str, Any]:
    """Record a corridor unless it is already recorded; return a summary."""
    path = file(config, name)
    if not path.exists():
        flight = fly(name, config)
        tensors = {key: getattr(flight, key) for key in ("frames", "actions", "scans")}
        digest = _digest(tensors)
        manifest = {"corridor": name, "collisions": flight.collisions, "sha256": digest}
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as unfinished:
            save_file(tensors, unfinished, {"manifest": json.dumps(manifest)})
    flight = load(config, name)
    fractions = torch.bincount(flight.actions, minlength=3) / len(flight.actions)
    return {
        "corridor": name,
        "frames": len(flight.frames),
        "collisions": flight.collisions,
        "left, straight, right": [round(fraction, 3) for fraction in fractions.tolist()],
        "sha256": _digest({key: getattr(flight, key) for key in ("frames", "actions", "scans")}),
        "file": str(path),
    }


def load(config: Recording, name: str) -> Flight:
    """Load a recorded flight."""
    path = file(config, name)
    damaged = f"{path} is damaged: remove it and record the corridor again"
    try:
        with safe_open(path, "pt") as content:
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


def run(config: Recording) -> list[dict[str, Any]]:
    """Record all corridors in parallel, and print a summary."""
    file(config, "A").parent.mkdir(parents=True, exist_ok=True)
    started = perf_counter()
    new = sum(not file(config, name).exists() for name in config.corridors)
    rows = runner.run_all(
        _record_one,
        [(name, config) for name in config.corridors],
        workers=config.workers,
        describe=lambda job: f"corridor {job[0]}",
    )
    seconds = perf_counter() - started
    frames = sum(row["frames"] for row in rows)
    table = [["corridor", "frames", "collisions", "left", "straight", "right"]]
    for row in rows:
        actions = [f"{100 * fraction:.0f} %" for fraction in row["left, straight, right"]]
        table.append([row["corridor"], str(row["frames"]), str(row["collisions"]), *actions])
    print_table("Recorded flights", table)
    console = Console()
    console.print(f"{frames} frames in {file(config, 'A').parent}")
    if new == len(rows):
        console.print(f"{frames / seconds:.0f} control steps per second")
    if config.video:
        for row in rows:
            video = Path(row["file"]).with_suffix(".mp4")
            _write_video(load(config, row["corridor"]), video)
            console.print(f"video: {video}")
    return rows


def _record_one(job: tuple[str, Recording]) -> dict[str, Any]:
    return record(*job)


def _write_video(flight: Flight, path: Path) -> None:
    shots = zip(flight.frames.numpy(), flight.scans.numpy(), flight.actions.tolist(), strict=True)
    film.write(path, itertools.starmap(film.Shot, shots), rate=10)
