"""How the defaults of `taskfree learn` were chosen, on streams that its comparison does not use.

Four streams of river's generators have concept drift: old labels become wrong, and labels are
noisy. One stream changes its regions: nothing becomes wrong, and much can be forgotten. It is used
in two lengths, the longer six times as long. Accuracy is prequential; for the regions also the
final accuracy over all of them.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from taskfree import MAS, Hardest, Learner, Recent, Reservoir
from taskfree.paper import cache, publish, runner
from taskfree.paper.statistics import mean_and_spread
from taskfree.tabular.schema import Choices, Schema
from taskfree.tabular.session import Session
from taskfree.which import Buffer

Rows = Iterator[tuple[list[float], Any]]
REGIONS, CLASSES, WIDE = 5, 3, 10


def sea(rows: int, seed: int) -> Rows:
    """Four concepts; one label in ten is wrong."""
    from river.datasets import synth

    for number, variant in enumerate((0, 2, 1, 3)):
        for x, y in synth.SEA(variant, seed=seed + number, noise=0.1).take(rows // 4):
            yield list(x.values()), y


def agrawal(rows: int, seed: int) -> Rows:
    """Loan decisions: three concepts."""
    from river.datasets import synth

    for number, concept in enumerate((0, 3, 6)):
        for x, y in synth.Agrawal(concept, seed=seed + number).take(rows // 3):
            yield list(map(float, x.values())), y


def centroids(rows: int, seed: int) -> Rows:
    """Twenty centroids, half of which move."""
    from river.datasets import synth

    stream = synth.RandomRBFDrift(
        seed_model=seed, seed_sample=seed, n_classes=4, n_features=WIDE, n_centroids=20,
        change_speed=0.0005, n_drift_centroids=10,
    )  # fmt: skip
    for x, y in stream.take(rows):
        yield list(x.values()), y


def hyperplane(rows: int, seed: int) -> Rows:
    """A slowly rotating plane; one label in twenty is wrong."""
    from river.datasets import synth

    stream = synth.Hyperplane(
        seed=seed, n_features=WIDE, n_drift_features=3, mag_change=0.001, noise_percentage=0.05
    )
    for x, y in stream.take(rows):
        yield list(x.values()), y


def _regions(seed: int) -> tuple[list[tuple[Tensor, Tensor]], torch.Generator]:
    generator = torch.Generator().manual_seed(seed)
    clusters = [
        (3 * torch.randn(6, WIDE, generator=generator),
         torch.randint(CLASSES, (6,), generator=generator))
        for _ in range(REGIONS)
    ]  # fmt: skip
    return clusters, generator


def _drawn(clusters: tuple[Tensor, Tensor], rows: int, generator: torch.Generator) -> Rows:
    centres, labels = clusters
    which = torch.randint(len(labels), (rows,), generator=generator)
    points = centres[which] + torch.randn(rows, WIDE, generator=generator)
    yield from zip(points.tolist(), labels[which].tolist(), strict=True)


def regions(rows: int, seed: int) -> Rows:
    """Six clusters of three classes, then six others, and so on: nothing becomes wrong."""
    clusters, generator = _regions(seed)
    for one in clusters:
        yield from _drawn(one, rows // REGIONS, generator)


STREAMS: dict[str, Callable[[int, int], Rows]] = {
    "SEA": sea, "Agrawal": agrawal, "moving centroids": centroids, "hyperplane": hyperplane,
    "regions": regions, "long regions": lambda rows, seed: regions(6 * rows, seed),
}  # fmt: skip
BUFFERS: dict[str, Callable[[], Buffer | None]] = {
    "none": lambda: None, "hardest 30, balanced": lambda: Hardest(30, balanced=True),
    "recent 100": lambda: Recent(100), "reservoir 100": lambda: Reservoir(100),
}  # fmt: skip
CHOICES = [
    ("none", 0.01, 0.0), ("none", 0.003, 0.0), ("none", 0.01, 0.01),
    ("hardest 30, balanced", 0.01, 0.01), ("recent 100", 0.01, 0.01),
    ("reservoir 100", 0.01, 0.0), ("reservoir 100", 0.003, 0.01), ("reservoir 100", 0.01, 0.1),
    ("reservoir 100", 0.01, 0.01),
]  # fmt: skip
"""Buffer, learning rate and strength; the last is the default."""


def run_one(job: tuple[str, tuple[str, float, float], int, int]) -> dict[str, Any]:
    """One choice on one stream."""
    warnings.simplefilter("ignore")
    name, (buffer, lr, strength), seed, count = job
    rows = [([*x, None], str(y)) for x, y in STREAMS[name](count, seed)]
    kinds = {f"c{at}": "number" for at in range(len(rows[0][0]) - 1)} | {"y": ""}
    with tempfile.TemporaryDirectory() as folder:
        session = Session(Path(folder), Schema(Choices(target="y", seed=seed), kinds=kinds))
        model = session.learner.model
        session.model.learner = session.learner = Learner(
            model,
            torch.optim.Adam(model.parameters(), lr=lr, fused=True),
            loss=session.learner.loss,
            which=BUFFERS[buffer](),
            how=MAS(strength, penalty="relative") if strength else None,
        )
        size = session.schema.choices.batch_size
        for start in range(0, len(rows), size):
            block = rows[start : start + size]
            session.learn([session.read([*x[:-1], y]) for x, y in block])
        found = {"stream": name, "buffer": buffer, "lr": lr, "strength": strength, "seed": seed,
                 "accuracy": round(session.metric.mean, 4)}  # fmt: skip
        if "regions" in name:
            generator = torch.Generator().manual_seed(seed + 1000)
            ends = []
            for one in _regions(seed)[0]:
                read = [session.read([*x, str(y)]) for x, y in _drawn(one, 500, generator)]
                xs, ys, _ = zip(*read, strict=True)
                predicted = session.predict(session.inputs.encode(xs, learn=False))
                correct = predicted == session.targets.encode(ys, learn=False)
                ends.append(float(correct.float().mean()))
            found["at the end"] = mean_and_spread(ends)[0]
    return found


def main() -> None:
    """Run everything and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds, from 100 on")
    parser.add_argument("--out", type=Path, default=Path("results/learn-defaults.json"))
    options = parser.parse_args()
    seeds = range(100, 100 + options.seeds)
    jobs = [(s, c, seed, options.rows) for c in CHOICES for s in STREAMS for seed in seeds]
    runs = runner.run_all(run_one, jobs, describe=lambda job: f"{job[1][0]}, {job[0]}")
    summary = []
    for choice in CHOICES:
        row: dict[str, Any] = dict(zip(("buffer", "lr", "strength"), choice, strict=True))
        for stream in STREAMS:
            own = [
                one for one in runs
                if one["stream"] == stream
                and (one["buffer"], one["lr"], one["strength"]) == choice
            ]  # fmt: skip
            for key in ("accuracy", "at the end"):
                if key in own[0]:
                    name = stream if key == "accuracy" else f"{stream}, {key}"
                    row[name] = mean_and_spread([one[key] for one in own])[0]
        summary.append(row)
        print(row)  # noqa: T201
    command = f"python benchmarks/defaults.py --rows {options.rows} --seeds {options.seeds}"
    content = {"command": command, "versions": cache.versions(), "summary": summary, "runs": runs}
    publish.write_results(options.out, content)


if __name__ == "__main__":
    main()
