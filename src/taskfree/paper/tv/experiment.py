"""Learning to recognize actors by watching television: paper section 4.2."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import Any

import torch
from torch import nn

from taskfree.learner import Learner
from taskfree.paper import runner
from taskfree.paper.cache import run_file
from taskfree.paper.publish import publish, settings
from taskfree.paper.tv import analysis, figures
from taskfree.paper.tv.config import SETTINGS, TVConfig, TVJob, TVSetting
from taskfree.paper.tv.series import Series
from taskfree.paper.tv.templates import Templates
from taskfree.paper.tv.triplets import (
    FaceMAS,
    Faces,
    Pair,
    co_occurring_pairs,
    merge_tracks,
    pairs,
    triplet_loss,
    triplets,
)
from taskfree.paper.tv.watching import alexnet, prepare, series_file, source_digests
from taskfree.when import Plateau
from taskfree.which import Hardest

__all__ = ["TVConfig", "run"]


def run_one(job: TVJob) -> dict[str, Any]:
    """Watch the whole series with a setting and a seed."""
    whole = Series.load(series_file(job.config, job.seed))
    return learn_series(job, whole, alexnet(job.config, job.seed).classifier)


def learn_series(job: TVJob, whole: Series, network: nn.Module) -> dict[str, Any]:
    """Watch a series with this network, and evaluate it after each part."""
    started = perf_counter()
    torch.manual_seed(job.seed)
    learner = _learner(Faces(network, whole.gallery), job.config, job.setting)
    templates = Templates(whole.templates)
    generator = torch.Generator().manual_seed(job.seed)

    tested = [(actor, face) for actor, faces in whole.held_out.items() for face in faces]

    def evaluate() -> dict[str, Any]:
        """The accuracy on all faces, on those of each actor, and on those of each episode."""
        names = templates.identify(learner.predict, torch.tensor([face for _, face in tested]))
        correct = [name == actor for name, (actor, _) in zip(names, tested, strict=True)]
        by_actor, by_episode = defaultdict(list), defaultdict(list)
        for is_correct, (actor, face) in zip(correct, tested, strict=True):
            by_actor[actor].append(is_correct)
            by_episode[whole.episode_of[face]].append(is_correct)
        return {
            "accuracy": round(mean(correct), 4),
            "actors": {actor: round(mean(own), 4) for actor, own in by_actor.items()},
            "episodes": {
                number: round(mean(by_episode[number]), 4) for number in sorted(by_episode)
            },
        }

    curve: list[dict[str, Any]] = [{"episode": 0, "step": 0, **evaluate()}]
    losses, events = [], []
    for episode, steps in _steps(job, whole):
        for pair in steps:
            faces = triplets(pair, generator=generator)
            if len(faces):
                report = learner.learn(faces, torch.zeros(len(faces)))
                losses.append(round(report.window_loss, 4))
                if report.event is not None:
                    events.append({"step": report.step, "kind": report.event.kind})
        curve.append({"episode": episode, "step": learner.step, **evaluate()})
    return {
        "setting": job.setting.name, "seed": job.seed, "curve": curve, "losses": losses,
        "events": events, "steps": learner.step,
        "seconds": round(perf_counter() - started, 1),
    }  # fmt: skip


def _learner(model: Faces, config: TVConfig, setting: TVSetting) -> Learner:
    how = None
    if setting.consolidate is not None:
        how = FaceMAS(config.strength, setting.consolidate, config.penalty)
    return Learner(
        model,
        torch.optim.SGD(model.parameters(), lr=config.lr, fused=True),
        loss=triplet_loss,
        when=Plateau(window=5, mean=config.mean, variance=config.variance),
        which=Hardest(config.buffer_size) if setting.buffer else None,
        how=how,
        repeats=config.repeats if setting.annotated else config.repeats_self_supervised,
    )


def _steps(job: TVJob, whole: Series) -> Iterator[tuple[int, list[Pair]]]:
    """The time steps of each part, with its episode; evaluations follow the parts."""
    config, setting = job.config, job.setting
    if setting.order == "none":
        return
    if setting.order == "as seen":
        if setting.annotated:
            found = list(pairs(whole.tracks))
        else:
            tracks = merge_tracks(whole.tracks, whole.gallery, config.merge_threshold)
            found = list(co_occurring_pairs(tracks))
        for episode in whole.episodes:
            own = [pair for pair in found if pair.episode == episode]
            for part in _parts(own, config.tests_per_episode):
                yield episode, part
        return
    found = list(pairs(whole.tracks))
    generator = torch.Generator().manual_seed(job.seed)
    for epoch in range(config.epochs if setting.epochs else 1):
        order = torch.randperm(len(found), generator=generator).tolist()
        parts = _parts([found[at] for at in order], len(whole.episodes) * config.tests_per_episode)
        for at, part in enumerate(parts):
            yield 1 + epoch * len(whole.episodes) + at // config.tests_per_episode, part


def _parts(found: list[Pair], count: int) -> list[list[Pair]]:
    """Split the time steps into this many parts of nearly equal length."""
    edges = [len(found) * at // count for at in range(count + 1)]
    return [found[start:end] for start, end in pairwise(edges)]


def _track_counts(job: TVJob) -> list[dict[str, int]]:
    """For each part, the number of tracks of each actor that are learned from."""
    whole = Series.load(series_file(job.config, job.seed))
    owner = {track.faces: track.actor for track in whole.tracks}
    parts = [{faces for pair in part for faces in pair[1:]} for _, part in _steps(job, whole)]
    return [dict(Counter(owner[faces] for faces in sorted(part))) for part in parts]


def _file(job: TVJob) -> Path:
    """The file of a run; its key leaves out options that the setting does not use."""
    setting, sources = job.setting, source_digests(job.config)
    unused = {"seeds", "first_seed", *sources}
    if setting.annotated:
        unused |= {"repeats_self_supervised", "merge_threshold"}
    else:
        unused |= {"repeats"}
    unused |= set() if setting.consolidate else {"strength", "penalty"}
    unused |= set() if setting.buffer else {"buffer_size"}
    unused |= set() if setting.epochs else {"epochs"}
    used = settings(job.config, without=tuple(unused)) | sources
    return run_file(job.config.out, f"{setting.name} {job.seed}", used)


def run(config: TVConfig) -> dict[str, Any]:
    """Run every setting that is not finished, and publish the results."""
    given = [name for name in ("faces", "lfw", "series", "clip") if getattr(config, name)]
    if len(given) != 1:
        raise ValueError(
            "choose one series: --faces DIR --order FILE, --lfw --order FILE, --series DIR, or "
            "--clip"
        )
    if given[0] in ("faces", "lfw") and config.order is None:
        raise ValueError("--order must be a CSV file with the actor of every track, in order")
    seeds = range(config.first_seed, config.first_seed + config.seeds)
    jobs = [TVJob(config, setting, seed) for setting in SETTINGS for seed in seeds]
    (config.out / "runs").mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        if not series_file(config, seed).exists():
            prepare(config, seed)
    runs = runner.run_cached(
        run_one,
        sorted(jobs, key=lambda job: not job.setting.epochs),  # the longest first
        _file,
        workers=config.workers,
        describe=lambda job: f"{job.setting.name}, {job.seed}",
    )
    names = [setting.name for setting in SETTINGS]
    runs.sort(key=lambda one: names.index(one["setting"]))
    rows, aims = analysis.summary(runs), analysis.aims(runs)
    counts = _track_counts(next(job for job in jobs if job.setting.name == "online"))
    tests = config.tests_per_episode
    curves = partial(figures.curves, rows, tested=config.tested, tests_per_episode=tests)
    drawn = {
        "accuracy.png": curves(figures.MAIN, "Actor recognition, learned by watching"),
        "ablation.png": curves(figures.ABLATION, "Ablation"),
        "self-supervised.png": curves(figures.SELF_SUPERVISED, "Self-supervised learning"),
        "episodes.png": figures.episodes(runs, tested=config.tested, tests_per_episode=tests),
        "actors.png": figures.actors(runs, counts, tests_per_episode=tests),
    }
    return publish(
        "tv",
        config,
        title="Learning to recognize actors by watching television",
        found={
            "aims": aims,
            "summary": rows,
            "tracks of each actor in each part, first seed": counts,
            "runs": runs,
        },
        tables={
            f"Accuracy on {config.tested}, {config.seeds} seeds": analysis.table(rows),
            "Targets, in points of accuracy": analysis.aims_table(aims),
        },
        figures={name: (figure, figures.CAPTIONS[name]) for name, figure in drawn.items()},
    )
