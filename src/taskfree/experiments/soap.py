"""Learning actors by watching television: paper section 4.2."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from time import perf_counter
from typing import Any

import torch
from rich.progress import track

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
    """only so many, from the first on; 0: all. The settings were chosen on the first alone"""
    tracks: int = 50
    """of a composed series, tracks an episode; 0: as many as the order has"""
    weights: Path | None = None
    """AlexNet's convolutions by torchvision's names (safetensors); fetched if not given"""
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
        for name in ("seeds", "repeats", "repeats_alone", "buffer", "epochs"):
            arguments.whole(name, getattr(self, name), least=1)
        for name in ("first_seed", "episodes", "tracks"):
            arguments.whole(name, getattr(self, name), least=0)
        arguments.number("lr", self.lr, above=0)
        arguments.number("strength", self.strength, least=0)


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


def watch(config: Config, seed: int) -> series.Series:
    """The series, as the config says."""
    given = [name for name in ("faces", "lfw", "series", "clip") if getattr(config, name)]
    if len(given) != 1:
        raise ValueError(
            "say which series, and only one: --faces DIR --order FILE, --lfw --order FILE, "
            "--series DIR, or --clip"
        )
    if config.clip:
        found = series.from_folder(clip.tracks(), held_out=0)
    elif config.series is not None:
        found = series.from_folder(config.series)
    else:
        if config.order is None:
            raise ValueError("--order must be a CSV of who is seen, track after track")
        folder = config.faces or compose.lfw(LFW)
        people = compose.people(folder, Detector() if config.crop else None)
        order = compose.read_order(config.order)
        found = compose.compose(people, order, seed=seed, tracks=config.tracks)
    return found


def _first(whole: series.Series, count: int) -> series.Series:
    """Only the first episodes, with only those who are seen in them."""
    last = whole.episodes[:count][-1]
    tracks = [track for track in whole.tracks if track.episode <= last]
    seen = {track.actor for track in tracks}
    return replace(
        whole,
        tracks=tracks,
        held_out={actor: faces for actor, faces in whole.held_out.items() if actor in seen},
    )


def _alexnet(config: Config, seed: int = 0) -> AlexNet:
    weights = data.fetch("alexnet") if config.weights is None else config.weights
    return AlexNet(100, weights, seed=seed, dropout=config.dropout)


def _kept(config: Config, seed: int) -> Path:
    """Where a series is kept, with what the convolutions, which do not learn, make of its faces."""
    names = ("faces", "lfw", "crop", "order", "series", "clip", "tracks", "weights")
    said = {name: str(getattr(config, name)) for name in names}
    return pool.place(config.out, f"series {seed}", said, end="safetensors")


def prepare(job: Job) -> None:
    """Find or compose the series, and look at all its faces."""
    config = job.config
    whole = watch(config, job.seed)
    network = _alexnet(config).convolutions
    bar = partial(track, description="features of all faces")
    seen = replace(whole, gallery=series.features(whole.gallery, network, bar))
    seen.save(_kept(config, job.seed))


# One run


def run_one(job: Job) -> dict[str, Any]:
    """Watch the whole series with one setting and one seed."""
    started = perf_counter()
    config, setting = job.config, job.setting
    whole = series.Series.load(_kept(config, job.seed))
    if config.episodes:
        whole = _first(whole, config.episodes)
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
    if setting.annotated:
        found = list(pairs(whole.tracks))
    else:
        found = list(pairs_together(merged(whole.tracks, whole.gallery, config.nearest)))
    if setting.order == "as seen":
        for episode in whole.episodes:
            yield episode, [pair for pair in found if pair.episode == episode]
        return
    chance = torch.Generator().manual_seed(job.seed)
    size = -(-len(found) // len(whole.episodes))
    for turn in range(config.epochs if setting.epochs else 1):
        order = torch.randperm(len(found), generator=chance).tolist()
        for part, episode in enumerate(whole.episodes):
            chosen = order[part * size : (part + 1) * size]
            yield episode + turn * len(whole.episodes), [found[at] for at in chosen]


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
        if key not in ("out", "workers", "seeds", "first_seed")
    }
    return pool.place(job.config.out, f"{job.setting.name} {job.seed}", said)


# All of it


def run(config: Config) -> dict[str, Any]:
    """Run every setting that is not done, and write what was found."""
    seeds = range(config.first_seed, config.first_seed + config.seeds)
    jobs = [Job(config, setting, seed) for setting in SETTINGS for seed in seeds]
    missing = {job.seed: job for job in jobs if not _kept(config, job.seed).exists()}
    (config.out / "runs").mkdir(parents=True, exist_ok=True)
    for job in missing.values():
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
        "summary": rows,
        "runs": runs,
    }
    pool.write_json(config.out / "results.json", results)
    figures = {
        "accuracy.png": soap_figures.curves(rows, soap_figures.MAIN, "Actors learned by watching"),
        "ablation.png": soap_figures.curves(rows, soap_figures.ABLATION, "What each part does"),
        "alone.png": soap_figures.curves(rows, soap_figures.ALONE, "With nobody to ask"),
        "actors.png": soap_figures.actors(runs),
    }
    for name, figure in figures.items():
        report.save(figure, config.out / name)
    report.write_html(
        config.out / "report.html",
        title="Learning actors by watching television",
        introduction=" ".join((Config.__doc__ or "").split()),
        tables={f"Accuracy on held-out faces, {config.seeds} seeds": table(rows)},
        figures={name: (config.out / name, soap_figures.CAPTIONS[name]) for name in figures},
        details={key: results[key] for key in ("command", "config", "versions")},
    )
    pool.print_table("Accuracy on held-out faces (mean and deviation over the seeds)", table(rows))
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
    """Accuracy on all held-out faces after each episode, and of each actor at the end."""
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
                "after each episode": [_spread(list(at)) for at in zip(*curves, strict=True)],
                "consolidations": _spread(
                    [sum(e["kind"] == "plateau" for e in one["events"]) for one in own]
                ),
                "seconds": _spread([one["seconds"] for one in own]),
            }
        )  # fmt: skip
    return rows


def _spread(values: list[float]) -> list[float]:
    return [round(mean(values), 4), round(stdev(values) if len(values) > 1 else 0.0, 4)]
