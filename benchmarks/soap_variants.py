"""Which composed series forgets: every variant of it with a small network, on seeds of its own.

AlexNet takes minutes a run, too long to look at many series. Here a network of three layers of 1024
learns from what the convolutions make of a face, averaged to 2 x 2 places: some ten seconds a run.
The seeds, 100 to 103, are none of those that are reported.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import nn

from taskfree.experiments import pool, soap
from taskfree.faces import compose, series
from taskfree.faces.alexnet import prepared
from taskfree.faces.detect import Detector

VARIANTS: list[dict[str, int]] = [
    {"actors": 0, "stretch": 1}, {"actors": 0, "stretch": 10},
    {"actors": 8, "stretch": 10}, {"actors": 8, "stretch": 25}, {"actors": 8, "stretch": 50},
]  # fmt: skip
SEEDS = range(100, 104)
SETTINGS = ("online", "online continual", "online joint")


def main() -> None:
    """Run every variant with every seed, and write what each of them shows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faces", type=Path, required=True)
    parser.add_argument("--order", type=Path, required=True)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--runs", type=Path, default=Path("results/soap-variants"))
    parser.add_argument("--out", type=Path, default=Path("results/soap-variants.json"))
    given = parser.parse_args()
    config = soap.Config(out=given.runs, faces=given.faces, order=given.order, lr=0.01)
    (given.runs / "runs").mkdir(parents=True, exist_ok=True)
    settings = [one for one in soap.SETTINGS if one.name in SETTINGS]
    wholes = [
        [soap.Job(replace(config, **variant), settings[0], seed) for seed in SEEDS]
        for variant in VARIANTS
    ]
    pool.run_all(prepare, [job for jobs in wholes for job in jobs], workers=given.workers)
    jobs = [
        replace(job, setting=setting)
        for whole in wholes for setting in settings for job in whole
    ]  # fmt: skip
    runs = pool.run_kept(run_one, jobs, soap._place, workers=given.workers)
    rows = []
    for at in range(0, len(runs), len(SEEDS)):
        found, job = runs[at : at + len(SEEDS)], jobs[at]
        rows.append(
            {
                "actors": job.config.actors, "stretch": job.config.stretch,
                "setting": job.setting.name,
                "at the end": [one["curve"][-1]["accuracy"] for one in found],
                "in the episode just watched": [just_watched(one) for one in found],
                "plateaus": [sum(e["kind"] == "plateau" for e in one["events"]) for one in found],
            }
        )  # fmt: skip
        print(rows[-1])  # noqa: T201
    results = {
        "command": "python benchmarks/soap_variants.py --faces faces --order order.csv",
        "about": "a small network in place of AlexNet; see the script",
        "versions": pool.versions(),
        "rows": rows,
    }
    pool.write_json(given.out, results)


def prepare(job: soap.Job) -> None:
    """Compose a series, and keep what the convolutions make of every face, 2 x 2 places of it."""
    config, place = job.config, soap._kept(job.config, job.seed)
    if place.exists():
        return
    assert config.faces is not None
    assert config.order is not None
    found = compose.compose(
        compose.people(config.faces, Detector()), compose.read_order(config.order),
        seed=job.seed, stretch=config.stretch, actors=config.actors,
    )  # fmt: skip
    convolutions = soap._alexnet(config).features
    with torch.no_grad():
        parts = [convolutions(prepared(part)) for part in found.gallery.split(64)]
        small = nn.functional.adaptive_avg_pool2d(torch.cat(parts), 2).flatten(1)
    replace(found, gallery=small).save(place)


def run_one(job: soap.Job) -> dict[str, Any]:
    """A run of the experiment with the small network."""
    torch.manual_seed(job.seed)
    hidden = [nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU()]
    whole = series.Series.load(soap._kept(job.config, job.seed))
    return soap.learned(job, whole, nn.Sequential(*hidden, nn.Linear(1024, 100)))


def just_watched(run: dict[str, Any]) -> float | None:
    """The mean accuracy on each episode right after it; there is no such time if shuffled."""
    if "joint" in run["setting"]:
        return None
    return round(mean(point["episodes"][str(at)] for at, point in enumerate(run["curve"]) if at), 4)


if __name__ == "__main__":
    main()
