"""Prepares the series of the television experiment, with the features of all faces."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import torch
from rich.progress import track
from torch import Tensor

from taskfree.paper import data
from taskfree.paper.cache import run_file
from taskfree.paper.tv import clip, compose, series
from taskfree.paper.tv.alexnet import AlexNet
from taskfree.paper.tv.config import TVConfig
from taskfree.paper.tv.detect import FaceDetector

LFW = Path.home() / ".cache/taskfree/lfw"


def alexnet(config: TVConfig, seed: int = 0) -> AlexNet:
    """The initial network."""
    weights = data.fetch("alexnet") if config.weights is None else config.weights
    return AlexNet(100, weights, seed=seed, dropout=config.dropout)


def prepare(config: TVConfig, seed: int) -> None:
    """Read or compose the series, compute the features of all faces, and save it."""
    features = partial(series.extract_features, alexnet(config).convolutions)
    make_series(config, seed, features).save(series_file(config, seed))


def make_series(config: TVConfig, seed: int, features: Callable[[Tensor], Tensor]) -> series.Series:
    """The series of a config, with the features of all faces."""
    if config.clip:
        return series.from_folder(clip.tracks(), held_out=0, features=features)
    if config.series is not None:
        return series.from_folder(
            config.series, held_out=config.held_out, episodes=config.episodes, features=features
        )
    assert config.order is not None
    found = compose.compose(
        compose.people(
            config.faces or compose.lfw(LFW), FaceDetector() if config.crop else None
        ),
        compose.read_order(config.order),
        seed=seed, tracks_per_episode=config.tracks_per_episode,
        scene_length=config.scene_length, actors=config.actors, held_out=config.held_out,
        episodes=config.episodes,
    )  # fmt: skip
    bar = track(found.gallery, description="features of all faces")
    return replace(found, gallery=torch.stack([features(image) for image in bar]))


def series_file(config: TVConfig, seed: int) -> Path:
    """The file of a series, with the features by the convolutions, which do not learn."""
    names = (
        "lfw", "crop", "clip", "episodes", "held_out", "tracks_per_episode", "scene_length",
        "actors",
    )  # fmt: skip
    used = {name: getattr(config, name) for name in names} | source_digests(config)
    name = "series" if config.series or config.clip else f"series {seed}"  # not random
    return run_file(config.out, name, used, suffix=".safetensors")


def source_digests(config: TVConfig) -> dict[str, str]:
    """Digests of the files that a series is made of: other files are another series."""
    paths = {name: getattr(config, name) for name in ("faces", "order", "series", "weights")}
    return {name: _digest(path) for name, path in paths.items() if path is not None}


@cache
def _digest(path: Path) -> str:
    """A digest of a file's content, or of a folder's tables and its images' names and sizes."""
    if path.is_file():
        with path.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    found = hashlib.sha256()
    for file in sorted(path.rglob("*")):
        parts = file.relative_to(path).parts
        if len(parts) > 1 and parts[1] == "crops" and (path / parts[0] / "frames").exists():
            continue  # cut from the frames
        if parts in (("faces.csv",), ("tracks.csv",)):
            continue  # derived from the others
        if file.suffix == ".csv":
            found.update(file.read_bytes())
        elif file.suffix.lower() in compose.IMAGES:
            found.update(f"{parts} {file.stat().st_size}".encode())
    return found.hexdigest()
