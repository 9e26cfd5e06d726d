"""Learning actors by watching television: paper section 4.2."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import Any

import torch
from rich.progress import track
from torch import Tensor, nn

from taskfree import arguments, data, report
from taskfree.experiments import pool, soap_figures, soap_found
from taskfree.faces import clip, compose, series
from taskfree.faces.alexnet import AlexNet
from taskfree.faces.detect import Detector
from taskfree.faces.templates import Templates
from taskfree.faces.triplets import (
    FaceMAS,
    Faces,
    Pair,
    merged,
    pairs,
    pairs_together,
    triplet_loss,
    triplets,
)
from taskfree.how import Penalty
from taskfree.learner import Learner
from taskfree.when import Plateau
from taskfree.which import Hardest

LFW = Path.home() / ".cache/taskfree/lfw"


@dataclass(frozen=True)
class Config:
    """An AlexNet learns to tell actors apart while it watches a series, each track seen once.

    Say which series: `--faces` and `--order` compose one of photographs, `--series` is a folder of
    your own episodes that `taskfree tracks` and `taskfree label` made, and `--clip` is 30 seconds
    of The Big Bang Theory, from pixels on. Every setting starts from the same weights for a seed.
    """

    out: Path = Path("results/soap")
    """where results.json, figures and report.html go; finished runs are not repeated"""
    faces: Path | None = None
    """a folder with a folder of photographs a person"""
    lfw: bool = False
    """the photographs are Labeled Faces in the Wild, which scikit-learn downloads"""
    crop: bool = True
    """look for the face in each photograph; without, the photographs are faces"""
    order: Path | None = None
    """a CSV with the columns episode and name: who is seen, track after track"""
    series: Path | None = None
    """a folder of tracks with names"""
    clip: bool = False
    """fetch the clip, find its faces, and learn them"""
    seeds: int = 3
    """how many seeds each setting runs with"""
    first_seed: int = 0
    """the first of them"""
    episodes: int = 0
    """only so many, from the first on, with nothing of the others; 0: all. The settings were
    chosen on the first alone"""
    held_out: int = 10
    """every so many-th track is a test; 0: none is, and the test is all faces, learned ones too"""
    chunks: int = 1
    """times that it is tested in an episode"""
    tracks: int = 50
    """of a composed series, tracks an episode; 0: as many as the order has"""
    stretch: int = 10
    """of a composed series, so many tracks follow each other as in the order, then comes a leap"""
    actors: int = 8
    """of a composed series, so many, the most frequent of the order; 0: as many as can be played"""
    weights: Path | None = None
    """AlexNet's convolutions, torchvision's file (.pth) or safetensors; fetched if not given"""
    lr: float = 0.001
    """learning rate of SGD"""
    repeats: int = 2
    """gradient steps a time step with an annotator"""
    repeats_alone: int = 10
    """... and with none"""
    buffer: int = 100
    """triplets in the hard buffer"""
    strength: float = 0.003
    """of the penalty"""
    penalty: Penalty = "relative"
    """how it holds parameters; "gradient" is the paper's"""
    mean: float = 0.3
    """a plateau's window mean is below this ..."""
    variance: float = 0.1
    """... and its variance below this"""
    dropout: float = 0.0
    """dropout of the layers that learn; torchvision's AlexNet has 0.5"""
    nearest: float = 0.6
    """adjacent tracks nearer than this, as a share of what is usual, are joined where nobody says
    who they are"""
    epochs: int = 5
    """passes of offline joint learning, which has no hard buffer"""
    workers: int | None = None
    """processes; as many as there are cores if not given"""

    def __post_init__(self) -> None:
        for name in ("seeds", "repeats", "repeats_alone", "buffer", "epochs", "chunks", "stretch"):
            arguments.whole(name, getattr(self, name), least=1)
        for name in ("first_seed", "episodes", "tracks", "actors", "held_out"):
            arguments.whole(name, getattr(self, name), least=0)
        for name in ("lr", "mean", "variance"):
            arguments.number(name, getattr(self, name), above=0)
        for name in ("strength", "dropout", "nearest"):
            arguments.number(name, getattr(self, name), least=0)
        if self.dropout >= 1:
            raise ValueError(f"dropout must be below 1, got {self.dropout}")
        if self.actors == 1:
            raise ValueError("actors must be 0 or at least 2, got 1, who is told from nobody")
        if self.held_out == 1:
            raise ValueError("held_out must be 0 or at least 2, got 1, which leaves none to learn")

    @property
    def tested(self) -> str:
        """The faces on which it is tested, in words."""
        return "held-out faces" if self.held_out and not self.clip else "all faces"


@dataclass(frozen=True)
class Setting:
    """One way to learn."""

    name: str
    order: str = "as seen"
    """`"as seen"`; `"shuffled"`, the same time steps in any order; `"none"`, no learning at all."""
    buffer: bool = True
    consolidate: str = ""
    """How importance is accumulated; empty: there is none."""
    annotated: bool = True
    epochs: bool = False


SETTINGS = (
    Setting("initial", order="none"),
    Setting("online"),
    Setting("online continual", consolidate="mean"),
    Setting("online joint", order="shuffled"),
    Setting("offline joint", order="shuffled", buffer=False, epochs=True),
    Setting("online, no hard buffer", buffer=False),
    Setting("online continual, no hard buffer", buffer=False, consolidate="mean"),
    Setting("online continual, decay", consolidate="decay"),
    Setting("online, self-supervised", annotated=False),
    Setting("online continual, self-supervised", annotated=False, consolidate="mean"),
)


@dataclass(frozen=True)
class Job:
    """One setting with one seed."""

    config: Config
    setting: Setting
    seed: int


# What is watched


def watch(config: Config, seed: int, see: Callable[[Tensor], Tensor]) -> series.Series:
    """The series, as the config says, with what is seen of each face."""
    if config.clip:
        found = series.from_folder(clip.tracks(), held_out=0, see=see)
    elif config.series is not None:
        found = series.from_folder(
            config.series, held_out=config.held_out, episodes=config.episodes, see=see
        )
    else:
        assert config.order is not None
        order = compose.read_order(config.order)
        folder = config.faces or compose.lfw(LFW)
        people = compose.people(folder, Detector() if config.crop else None)
        found = compose.compose(
            people, order, seed=seed, tracks=config.tracks, stretch=config.stretch,
            actors=config.actors, held_out=config.held_out, episodes=config.episodes,
        )  # fmt: skip
        bar = track(found.gallery, description="features of all faces")
        found = replace(found, gallery=torch.stack([see(picture) for picture in bar]))
    return found


def _alexnet(config: Config, seed: int = 0) -> AlexNet:
    weights = data.fetch("alexnet") if config.weights is None else config.weights
    return AlexNet(100, weights, seed=seed, dropout=config.dropout)


def _kept(config: Config, seed: int) -> Path:
    """Where a series is kept, with what the convolutions, which do not learn, make of its faces."""
    names = ("lfw", "crop", "clip", "episodes", "held_out", "tracks", "stretch", "actors")
    said = {name: getattr(config, name) for name in names} | _watched(config)
    name = "series" if config.series or config.clip else f"series {seed}"  # these have no chance
    return pool.place(config.out, name, said, end="safetensors")


def _watched(config: Config) -> dict[str, str]:
    """The files that a series is made of: whoever changes them has another series."""
    given = {name: getattr(config, name) for name in ("faces", "order", "series", "weights")}
    return {name: _mark(path) for name, path in given.items() if path is not None}


@cache
def _mark(path: Path) -> str:
    """Of a file and of tables their content, of many pictures their names and sizes."""
    if path.is_file():
        with open(path, "rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    found = hashlib.sha256()
    for file in sorted(path.rglob("*")):
        place = file.relative_to(path).parts
        if len(place) > 1 and place[1] == "crops" and (path / place[0] / "frames").exists():
            continue  # they are cut from the frames
        if place in (("faces.csv",), ("tracks.csv",)):
            continue  # they follow from the others
        if file.suffix == ".csv":
            found.update(file.read_bytes())
        elif file.suffix.lower() in compose.PICTURES:
            found.update(f"{place} {file.stat().st_size}".encode())
    return found.hexdigest()


def prepare(job: Job) -> None:
    """Find or compose the series, and look at all its faces."""
    see = partial(series.features, _alexnet(job.config).convolutions)
    watch(job.config, job.seed, see).save(_kept(job.config, job.seed))


# One run


def run_one(job: Job) -> dict[str, Any]:
    """Watch the whole series with one setting and one seed."""
    whole = series.Series.load(_kept(job.config, job.seed))
    return learned(job, whole, _alexnet(job.config, job.seed).classifier)


def learned(job: Job, whole: series.Series, network: nn.Module) -> dict[str, Any]:
    """What this network, which learns, makes of a series, and how long that takes."""
    started = perf_counter()
    torch.manual_seed(job.seed)
    learner = _learner(Faces(network, whole.gallery), job.config, job.setting)
    templates = Templates(whole.templates)
    chance = torch.Generator().manual_seed(job.seed)

    asked = [(actor, face) for actor, faces in whole.held_out.items() for face in faces]

    def evaluate() -> dict[str, Any]:
        """The share of the faces that are recognised: of all, of each actor, of each episode."""
        named = templates.who(learner.predict, torch.tensor([face for _, face in asked]))
        right = [name == actor for name, (actor, _) in zip(named, asked, strict=True)]
        by_actor, by_episode = defaultdict(list), defaultdict(list)
        for known, (actor, face) in zip(right, asked, strict=True):
            by_actor[actor].append(known)
            by_episode[whole.episode_of[face]].append(known)
        return {
            "accuracy": round(mean(right), 4),
            "actors": {actor: round(mean(own), 4) for actor, own in by_actor.items()},
            "episodes": {at: round(mean(by_episode[at]), 4) for at in sorted(by_episode)},
        }

    curve: list[dict[str, Any]] = [{"episode": 0, "step": 0, **evaluate()}]
    losses, events = [], []
    for episode, steps in _steps(job, whole):
        for pair in steps:
            faces = triplets(pair, generator=chance)
            if len(faces):
                told = learner.learn(faces, torch.zeros(len(faces)))
                losses.append(round(told.window_loss, 4))
                if told.event is not None:
                    events.append({"step": told.step, "kind": told.event.kind})
        curve.append({"episode": episode, "step": learner.step, **evaluate()})
    return {
        "setting": job.setting.name, "seed": job.seed, "curve": curve, "losses": losses,
        "events": events, "steps": learner.step,
        "seconds": round(perf_counter() - started, 1),
    }  # fmt: skip


def _learner(model: Faces, config: Config, setting: Setting) -> Learner:
    how = None
    if setting.consolidate in ("mean", "decay"):
        how = FaceMAS(config.strength, setting.consolidate, config.penalty)  # type: ignore[arg-type]
    return Learner(
        model,
        torch.optim.SGD(model.parameters(), lr=config.lr, fused=True),
        loss=triplet_loss,
        when=Plateau(window=5, mean=config.mean, variance=config.variance),
        which=Hardest(config.buffer) if setting.buffer else None,
        how=how,
        repeats=config.repeats if setting.annotated else config.repeats_alone,
    )


def _steps(job: Job, whole: series.Series) -> Iterator[tuple[int, list[Pair]]]:
    """The time steps, by the episode after which it is evaluated."""
    config, setting = job.config, job.setting
    if setting.order == "none":
        return
    if setting.order == "as seen":
        if setting.annotated:
            found = list(pairs(whole.tracks))
        else:
            found = list(pairs_together(merged(whole.tracks, whole.gallery, config.nearest)))
        for episode in whole.episodes:
            own = [pair for pair in found if pair.episode == episode]
            for part in _parts(own, config.chunks):
                yield episode, part
        return
    found = list(pairs(whole.tracks))
    chance = torch.Generator().manual_seed(job.seed)
    for turn in range(config.epochs if setting.epochs else 1):
        order = torch.randperm(len(found), generator=chance).tolist()
        parts = _parts([found[at] for at in order], len(whole.episodes) * config.chunks)
        for at, part in enumerate(parts):
            yield 1 + turn * len(whole.episodes) + at // config.chunks, part


def _parts(found: list[Pair], count: int) -> list[list[Pair]]:
    """As many parts, as long as each other as can be."""
    edges = [len(found) * at // count for at in range(count + 1)]
    return [found[start:end] for start, end in pairwise(edges)]


def _seen(job: Job) -> list[dict[str, int]]:
    """How many tracks of each actor are learned from in each part."""
    whole = series.Series.load(_kept(job.config, job.seed))
    owner = {track.faces: track.actor for track in whole.tracks}
    parts = [{faces for pair in part for faces in pair[1:]} for _, part in _steps(job, whole)]
    return [dict(Counter(owner[faces] for faces in sorted(part))) for part in parts]


def _place(job: Job) -> Path:
    """Where a run is kept: other options that it does not use are no other run."""
    setting = job.setting
    unused = {"out", "workers", "seeds", "first_seed", *_watched(job.config)}
    unused |= {"repeats_alone", "nearest"} if setting.annotated else {"repeats"}
    unused |= set() if setting.consolidate else {"strength", "penalty"}
    unused |= set() if setting.buffer else {"buffer"}
    unused |= set() if setting.epochs else {"epochs"}
    own = asdict(job.config).items()
    said = {name: str(value) for name, value in own if name not in unused} | _watched(job.config)
    return pool.place(job.config.out, f"{setting.name} {job.seed}", said)


# All of it


def run(config: Config) -> dict[str, Any]:
    """Run every setting that is not done, and write what was found."""
    given = [name for name in ("faces", "lfw", "series", "clip") if getattr(config, name)]
    if len(given) != 1:
        raise ValueError(
            "say which series, and only one: --faces DIR --order FILE, --lfw --order FILE, "
            "--series DIR, or --clip"
        )
    if given[0] in ("faces", "lfw") and config.order is None:
        raise ValueError("--order must be a CSV of who is seen, track after track")
    seeds = range(config.first_seed, config.first_seed + config.seeds)
    jobs = [Job(config, setting, seed) for setting in SETTINGS for seed in seeds]
    (config.out / "runs").mkdir(parents=True, exist_ok=True)
    for job in jobs:
        if not _kept(config, job.seed).exists():
            prepare(job)
    runs = pool.run_kept(
        run_one,
        sorted(jobs, key=lambda job: not job.setting.epochs),  # what takes longest comes first
        _place,
        workers=config.workers,
        describe=lambda job: f"{job.setting.name}, {job.seed}",
    )
    names = [setting.name for setting in SETTINGS]
    runs.sort(key=lambda one: names.index(one["setting"]))
    rows, found = soap_found.summary(runs), soap_found.aims(runs)
    seen = _seen(next(job for job in jobs if job.setting.name == "online"))
    results: dict[str, Any] = {
        "command": pool.command("soap", config),
        "config": {
            key: str(value) if isinstance(value, Path) else value
            for key, value in asdict(config).items()
            if key not in ("out", "workers")
        },
        "versions": pool.versions(),
        "aims": found,
        "summary": rows,
        "tracks of each actor in each part, first seed": seen,
        "runs": runs,
    }
    pool.write_json(config.out / "results.json", results)
    curves = partial(soap_figures.curves, rows, tested=config.tested, chunks=config.chunks)
    figures = {
        "accuracy.png": curves(soap_figures.MAIN, "Actors learned by watching"),
        "ablation.png": curves(soap_figures.ABLATION, "What each part does"),
        "alone.png": curves(soap_figures.ALONE, "With nobody to ask"),
        "episodes.png": soap_figures.episodes(runs, tested=config.tested, chunks=config.chunks),
        "actors.png": soap_figures.actors(runs, seen, chunks=config.chunks),
    }
    for name, figure in figures.items():
        report.save(figure, config.out / name)
    report.write_html(
        config.out / "report.html",
        title="Learning actors by watching television",
        introduction=" ".join((Config.__doc__ or "").split()),
        tables={
            f"Accuracy on {config.tested}, {config.seeds} seeds": soap_found.table(rows),
            "What it is meant to show, in points of accuracy": soap_found.aims_table(found),
        },
        figures={name: (config.out / name, soap_figures.CAPTIONS[name]) for name in figures},
        details={key: results[key] for key in ("command", "config", "versions")},
    )
    heading = f"Accuracy on {config.tested} (mean and deviation over the seeds)"
    pool.print_table(heading, soap_found.table(rows))
    print(f"report: {config.out / 'report.html'}")  # noqa: T201
    return results
