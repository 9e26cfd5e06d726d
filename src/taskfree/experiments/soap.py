"""Learning actors by watching television: paper section 4.2."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from statistics import mean, stdev
from time import perf_counter
from typing import Any

import torch
from rich.progress import track
from torch import Tensor

from taskfree import arguments, data, report
from taskfree.experiments import pool, soap_figures
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
    weights: Path | None = None
    """AlexNet's convolutions, torchvision's file (.pth) or safetensors; fetched if not given"""
    lr: float = 0.01
    """learning rate of SGD"""
    repeats: int = 2
    """gradient steps a time step with an annotator"""
    repeats_alone: int = 10
    """... and with none"""
    buffer: int = 100
    """triplets in the hard buffer"""
    strength: float = 10.0
    """of the penalty"""
    mean: float = 0.3
    """a plateau's window mean is below this ..."""
    variance: float = 0.1
    """... and its variance below this"""
    dropout: float = 0.0
    """of AlexNet's; its own is 0.5"""
    nearest: float = 0.6
    """adjacent tracks nearer than this, as a share of what is usual, are joined where nobody says
    who they are"""
    epochs: int = 5
    """passes of offline joint learning"""
    workers: int | None = None
    """processes; as many as there are cores if not given"""

    def __post_init__(self) -> None:
        for name in ("seeds", "repeats", "repeats_alone", "buffer", "epochs", "chunks"):
            arguments.whole(name, getattr(self, name), least=1)
        for name in ("first_seed", "episodes", "tracks", "held_out"):
            arguments.whole(name, getattr(self, name), least=0)
        for name in ("lr", "mean", "variance"):
            arguments.number(name, getattr(self, name), above=0)
        for name in ("strength", "dropout", "nearest"):
            arguments.number(name, getattr(self, name), least=0)
        if self.dropout >= 1:
            raise ValueError(f"dropout must be below 1, got {self.dropout}")
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
    """`"as seen"`, `"shuffled"`, or `"none"` for no learning at all."""
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
    given = [name for name in ("faces", "lfw", "series", "clip") if getattr(config, name)]
    if len(given) != 1:
        raise ValueError(
            "say which series, and only one: --faces DIR --order FILE, --lfw --order FILE, "
            "--series DIR, or --clip"
        )
    if config.clip:
        found = series.from_folder(clip.tracks(), held_out=0, see=see)
    elif config.series is not None:
        found = series.from_folder(
            config.series, held_out=config.held_out, episodes=config.episodes, see=see
        )
    else:
        if config.order is None:
            raise ValueError("--order must be a CSV of who is seen, track after track")
        folder = config.faces or compose.lfw(LFW)
        people = compose.people(folder, Detector() if config.crop else None)
        order = compose.read_order(config.order)
        found = compose.compose(
            people, order, seed=seed, tracks=config.tracks, held_out=config.held_out,
            episodes=config.episodes,
        )  # fmt: skip
        bar = track(found.gallery, description="features of all faces")
        found = replace(found, gallery=torch.stack([see(picture) for picture in bar]))
    return found


def _alexnet(config: Config, seed: int = 0) -> AlexNet:
    weights = data.fetch("alexnet") if config.weights is None else config.weights
    return AlexNet(100, weights, seed=seed, dropout=config.dropout)


def _kept(config: Config, seed: int) -> Path:
    """Where a series is kept, with what the convolutions, which do not learn, make of its faces."""
    names = ("lfw", "crop", "clip", "episodes", "held_out", "tracks")
    said = {name: getattr(config, name) for name in names} | _watched(config)
    name = "series" if config.series or config.clip else f"series {seed}"  # these have no chance
    return pool.place(config.out, name, said, end="safetensors")


def _watched(config: Config) -> dict[str, str]:
    """The files that a series is made of: whoever changes them has another series."""
    given = {name: getattr(config, name) for name in ("faces", "order", "series", "weights")}
    return {name: _mark(path) for name, path in given.items() if path is not None}


@cache
def _mark(path: Path) -> str:
    """Of tables their content, of pictures their names and sizes."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    found = hashlib.sha256()
    for file in files:
        place = file.relative_to(path).parts
        if len(place) > 1 and place[1] == "crops" and (path / place[0] / "frames").exists():
            continue  # they are cut from the frames
        if file.suffix == ".csv" and file.name != "tracks.csv":  # that one follows from the others
            found.update(file.read_bytes())
        elif file.suffix.lower() in (".jpg", ".jpeg", ".png", ".safetensors", ".pth"):
            found.update(f"{place} {file.stat().st_size}".encode())
    return found.hexdigest()


def prepare(job: Job) -> None:
    """Find or compose the series, and look at all its faces."""
    see = partial(series.features, _alexnet(job.config).convolutions)
    watch(job.config, job.seed, see).save(_kept(job.config, job.seed))


# One run


def run_one(job: Job) -> dict[str, Any]:
    """Watch the whole series with one setting and one seed."""
    started = perf_counter()
    config, setting = job.config, job.setting
    whole = series.Series.load(_kept(config, job.seed))
    torch.manual_seed(job.seed)
    model = Faces(_alexnet(config, job.seed).classifier, whole.gallery)
    learner = _learner(model, config, setting)
    templates = Templates(whole.templates)
    chance = torch.Generator().manual_seed(job.seed)

    def evaluate() -> dict[str, float]:
        found = templates.accuracy(learner.predict, whole.held_out)
        return {actor: round(share, 4) for actor, share in found.items()}

    curve: list[dict[str, Any]] = [{"episode": 0, "step": 0, "actors": evaluate()}]
    losses, events = [], []
    for episode, steps in _steps(job, whole):
        for pair in steps:
            faces = triplets(pair, generator=chance)
            if len(faces):
                told = learner.learn(faces, torch.zeros(len(faces)))
                losses.append(round(told.window_loss, 4))
                if told.event is not None:
                    events.append({"step": told.step, "kind": told.event.kind})
        curve.append({"episode": episode, "step": learner.step, "actors": evaluate()})
    sizes = {actor: len(faces) for actor, faces in whole.held_out.items()}
    for point in curve:
        right = sum(sizes[actor] * share for actor, share in point["actors"].items())
        point["accuracy"] = round(right / sum(sizes.values()), 4)
    return {
        "setting": setting.name, "seed": job.seed, "curve": curve, "losses": losses,
        "events": events, "seen": _seen(whole), "steps": learner.step,
        "seconds": round(perf_counter() - started, 1),
    }  # fmt: skip


def _learner(model: Faces, config: Config, setting: Setting) -> Learner:
    how = None
    if setting.consolidate in ("mean", "decay"):
        how = FaceMAS(config.strength, accumulate=setting.consolidate)  # type: ignore[arg-type]
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
    chance = torch.Generator().manual_seed(job.seed)
    for turn in range(config.epochs if setting.epochs else 1):
        order = torch.randperm(len(whole.tracks), generator=chance).tolist()
        found = list(pairs([whole.tracks[at] for at in order], across=True))
        parts = _parts(found, len(whole.episodes) * config.chunks)
        for at, part in enumerate(parts):
            yield 1 + turn * len(whole.episodes) + at // config.chunks, part


def _parts(found: list[Pair], count: int) -> list[list[Pair]]:
    """As many parts, as long as each other as can be."""
    edges = [len(found) * at // count for at in range(count + 1)]
    return [found[start:end] for start, end in pairwise(edges)]


def _seen(whole: series.Series) -> dict[str, dict[str, int]]:
    """How many tracks of each actor an episode has."""
    return {
        str(episode): dict(Counter(one.actor for one in whole.tracks if one.episode == episode))
        for episode in whole.episodes
    }


def _place(job: Job) -> Path:
    said = {
        key: str(value)
        for key, value in asdict(job.config).items()
        if key not in ("out", "workers", "seeds", "first_seed", *_watched(job.config))
    } | _watched(job.config)
    return pool.place(job.config.out, f"{job.setting.name} {job.seed}", said)


# All of it


def run(config: Config) -> dict[str, Any]:
    """Run every setting that is not done, and write what was found."""
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
    rows = summary(runs)
    results: dict[str, Any] = {
        "command": pool.command("soap", config),
        "config": {
            key: str(value) if isinstance(value, Path) else value
            for key, value in asdict(config).items()
            if key not in ("out", "workers")
        },
        "versions": pool.versions(),
        "aims": aims(runs),
        "summary": rows,
        "runs": runs,
    }
    pool.write_json(config.out / "results.json", results)
    curves = partial(soap_figures.curves, rows, tested=config.tested, chunks=config.chunks)
    figures = {
        "accuracy.png": curves(soap_figures.MAIN, "Actors learned by watching"),
        "ablation.png": curves(soap_figures.ABLATION, "What each part does"),
        "alone.png": curves(soap_figures.ALONE, "With nobody to ask"),
        "actors.png": soap_figures.actors(runs, chunks=config.chunks),
    }
    for name, figure in figures.items():
        report.save(figure, config.out / name)
    report.write_html(
        config.out / "report.html",
        title="Learning actors by watching television",
        introduction=" ".join((Config.__doc__ or "").split()),
        tables={f"Accuracy on {config.tested}, {config.seeds} seeds": table(rows)},
        figures={name: (config.out / name, soap_figures.CAPTIONS[name]) for name in figures},
        details={key: results[key] for key in ("command", "config", "versions", "aims")},
    )
    heading = f"Accuracy on {config.tested} (mean and deviation over the seeds)"
    pool.print_table(heading, table(rows))
    print(f"report: {config.out / 'report.html'}")  # noqa: T201
    return results


def table(rows: list[dict[str, Any]]) -> list[list[str]]:
    """The summary as text."""
    heading = ["", "accuracy", "mean over the actors", "consolidations"]
    return [heading] + [
        [
            row["setting"],
            *(
                f"{100 * row[key][0]:.1f} ± {100 * row[key][1]:.1f} %"
                for key in ("accuracy", "mean over the actors")
            ),
            f"{row['consolidations'][0]:.1f}",
        ]
        for row in rows
    ]


def summary(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Accuracy over all faces that are tested, after each part, and of each actor at the end."""
    rows = []
    for setting in SETTINGS:
        own = [one for one in runs if one["setting"] == setting.name]
        if not own:
            continue
        curves = [[point["accuracy"] for point in one["curve"]] for one in own]
        rows.append(
            {
                "setting": setting.name, "seeds": len(own),
                "accuracy": _spread([curve[-1] for curve in curves]),
                "mean over the actors": _spread(
                    [mean(one["curve"][-1]["actors"].values()) for one in own]
                ),
                "after each part": [_spread(list(at)) for at in zip(*curves, strict=True)],
                "consolidations": _spread(
                    [sum(e["kind"] == "plateau" for e in one["events"]) for one in own]
                ),
                "seconds": _spread([one["seconds"] for one in own]),
            }
        )  # fmt: skip
    return rows


def aims(runs: list[dict[str, Any]]) -> dict[str, float]:
    """What the experiment is meant to show, and what it does: means over the seeds, as shares."""
    curves: dict[str, list[list[float]]] = {
        setting.name: [
            [point["accuracy"] for point in one["curve"]]
            for one in runs
            if one["setting"] == setting.name
        ]
        for setting in SETTINGS
    }
    end: dict[str, float] = {name: mean(curve[-1] for curve in own) for name, own in curves.items()}

    def gap(one: str, other: str) -> float:
        return round(end[one] - end[other], 4)

    def lost(name: str) -> float:
        """From the best episode to the last."""
        return round(mean(max(curve) - curve[-1] for curve in curves[name]), 4)

    def unrest(name: str) -> float:
        """What is lost from one part to the next, in all: steady learning has none."""
        drops = [sum(max(0, a - b) for a, b in pairwise(curve)) for curve in curves[name]]
        return round(mean(drops), 4)

    continual, alone = "online continual", "self-supervised"
    return {
        "online above initial": gap("online", "initial"),
        "online continual above online": gap(continual, "online"),
        "online continual above online joint": gap(continual, "online joint"),
        "online continual above offline joint": gap(continual, "offline joint"),
        "online, lost since its best episode": lost("online"),
        "online continual, lost since its best episode": lost(continual),
        "self-supervised, online above initial": gap(f"online, {alone}", "initial"),
        "self-supervised, online continual above online": gap(
            f"{continual}, {alone}", f"online, {alone}"
        ),
        "hard buffer, online": gap("online", "online, no hard buffer"),
        "hard buffer, online continual": gap(continual, f"{continual}, no hard buffer"),
        "unrest, cumulative mean": unrest(continual),
        "unrest, decay": unrest(f"{continual}, decay"),
    }


def _spread(values: list[float]) -> list[float]:
    return [round(mean(values), 4), round(stdev(values) if len(values) > 1 else 0.0, 4)]
