"""Real, changing streams in one pass: `taskfree learn` with nothing set, and models of river.

Each stream is divided into four quarters. Every tenth row is held out. Every model predicts each
other row before it learns it. At the end of each quarter, every model is evaluated on the held-out
rows of all four. The forgetting of a quarter is its best accuracy at one of these evaluations since
it was learned, minus its final accuracy; reported is the mean over all quarters but the last.
Runs of river that the results file has already are not repeated.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import Any

import torch

from taskfree import metrics
from taskfree._core import files
from taskfree.paper import cache, data, publish, runner
from taskfree.paper.statistics import mean_and_spread
from taskfree.paper.streams import fashion
from taskfree.tabular.schema import FIRST_ROWS, Choices, infer
from taskfree.tabular.session import Session
from taskfree.tabular.sources import open_source

Rows = list[tuple[dict[str, Any], str]]
QUARTERS = 4


# The streams


def electricity(options: argparse.Namespace) -> Iterator[tuple[dict[str, Any], str]]:
    """The New South Wales electricity market: will the price rise? 45,312 half hours."""
    with options.electricity.open(newline="") as file:
        for row in csv.DictReader(file):
            label = row.pop("class")
            yield {name: float(value) for name, value in row.items()}, label


def flights(_: argparse.Namespace) -> Iterator[tuple[dict[str, Any], str]]:
    """Every third flight from New York in 2013: will it be 15 minutes late? From the schedule."""
    numbers = ("month", "day", "sched_dep_time", "sched_arr_time", "distance")
    with data.fetch("flights").open(newline="") as file:
        arrived = [row for row in csv.DictReader(file) if row["arr_delay"] not in ("", "NA")]
    for row in sorted(arrived, key=lambda row: row["time_hour"])[::3]:
        inputs: dict[str, Any] = {name: float(row[name]) for name in numbers}
        inputs |= {name: row[name] for name in ("carrier", "origin", "dest")}
        yield inputs, "late" if float(row["arr_delay"]) > 15 else "in time"


def clothes(options: argparse.Namespace) -> Iterator[tuple[dict[str, Any], str]]:
    """Fashion-MNIST in 7x7 pixels, by quarter: original, inverted, rotated, dark with gaps."""
    images, labels = fashion.load(fashion.find())
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(options.seed))
    kinds: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda p: p, lambda p: 255 - p, lambda p: p.rot90(1, (1, 2)),
        lambda p: p * (torch.arange(28) % 4 > 0) / 3,
    ]  # fmt: skip
    for part, kind in zip(order[:16_000].chunk(QUARTERS), kinds, strict=True):
        small = torch.nn.functional.avg_pool2d(kind(images[part].float()), 4).flatten(1)
        for values, label in zip(small.tolist(), labels[part].tolist(), strict=True):
            yield {f"p{at}": value for at, value in enumerate(values)}, str(label)


STREAMS = {"electricity": electricity, "flights": flights, "clothes": clothes}


# The models


class Taskfree:
    """`taskfree learn`."""

    def __init__(self, folder: Path, first: Rows, seed: int) -> None:
        file = folder / "first.csv"
        with file.open("w", newline="") as out:
            writer = csv.writer(out)
            writer.writerow([*first[0][0], "target"])
            writer.writerows([*row.values(), label] for row, label in first[:FIRST_ROWS])
        source = open_source(str(file))
        choices = Choices(target="target", seed=seed)
        schema = infer(list(source.rows()), source, choices, task="classification")
        self.session = Session(folder / "state", schema)
        self._waiting: list[Any] = []

    def learn(self, row: dict[str, Any], label: str) -> None:
        """Learn in steps of the command's default size; each row is predicted first."""
        self._waiting.append(self.session.read([*row.values(), label]))
        rows = self.session.progress.rows
        if len(self._waiting) == self.session.schema.choices.rows_per_step(rows):
            self.session.learn(self._waiting)
            self.session.progress.rows += len(self._waiting)
            self._waiting = []

    def accuracy(self, rows: Rows) -> float:
        """The accuracy on held-out rows."""
        session = self.session
        read = [session.read([*row.values(), label]) for row, label in rows]
        xs, ys, _ = zip(*read, strict=True)
        predicted = session.predict(session.inputs.encode(xs, learn=False))
        return float((predicted == session.targets.encode(ys, learn=False)).float().mean())

    @property
    def metric(self) -> metrics.Prequential:
        """The prequential metrics."""
        return self.session.metric


class River:
    """A model of river, which learns one row at a time."""

    def __init__(self, model: Any) -> None:
        self.model, self.metric = model, metrics.Prequential()
        self._numbers: dict[str, int] = {}
        self._answers: list[tuple[int, int]] = []

    def _number(self, label: Any) -> int:
        return -1 if label is None else self._numbers.setdefault(str(label), len(self._numbers))

    def learn(self, row: dict[str, Any], label: str) -> None:
        """Predict, score and learn."""
        self._answers.append((self._number(self.model.predict_one(row)), self._number(label)))
        if len(self._answers) == 64:
            predicted, actual = (torch.tensor(v) for v in zip(*self._answers, strict=True))
            self.metric.update(predicted, actual)
            self._answers = []
        self.model.learn_one(row, label)

    def accuracy(self, rows: Rows) -> float:
        """The accuracy on held-out rows."""
        return mean(float(self.model.predict_one(row) == label) for row, label in rows)


def _river(name: str, seed: int) -> Any:
    from river import compose, dummy, forest, linear_model, preprocessing, tree

    hot = compose.SelectType(str) | preprocessing.OneHotEncoder()
    scaled = compose.SelectType(float) | preprocessing.StandardScaler()
    return {
        "river: no change": dummy.NoChangeClassifier,
        "river: logistic regression": lambda: (
            (scaled + hot) | linear_model.SoftmaxRegression()
        ),
        "river: Hoeffding adaptive tree": lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=seed),
        "river: adaptive random forest": lambda: forest.ARFClassifier(n_models=10, seed=seed),
    }[name]()  # fmt: skip


CONTESTANTS = (
    "taskfree learn", "river: no change", "river: logistic regression",
    "river: Hoeffding adaptive tree", "river: adaptive random forest",
)  # fmt: skip


@dataclass(frozen=True)
class Job:
    """One model on one stream with one seed."""

    stream: str
    contestant: str
    seed: int
    options: argparse.Namespace


def run_one(job: Job) -> dict[str, Any]:
    """Take one pass over a stream."""
    warnings.simplefilter("ignore")
    rows = list(STREAMS[job.stream](job.options))
    size = len(rows) // QUARTERS
    parts = [rows[size * at : size * (at + 1)] for at in range(QUARTERS)]
    held_out = [part[9::10] for part in parts]
    with tempfile.TemporaryDirectory() as folder:
        model: Taskfree | River
        if job.contestant.startswith("river"):
            model = River(_river(job.contestant, job.seed))
        else:
            model = Taskfree(Path(folder), rows, job.seed)
        accuracy, seconds = [], 0.0
        for part in parts:
            started = perf_counter()
            for at, (row, label) in enumerate(part):
                if at % 10 != 9:
                    model.learn(row, label)
            seconds += perf_counter() - started
            accuracy.append([model.accuracy(held) for held in held_out])
    matrix = torch.tensor(accuracy)
    lost = [float(matrix[at:-1, at].max() - matrix[-1, at]) for at in range(QUARTERS - 1)]
    return {
        "stream": job.stream, "contestant": job.contestant, "seed": job.seed,
        "rows": model.metric.count, "accuracy": round(model.metric.mean, 4),
        "balanced accuracy": round(model.metric.balanced_accuracy, 4),
        "worst": round(model.metric.worst, 4),
        "at the end, all quarters": round(float(matrix[-1].mean()), 4),
        "forgetting": round(mean(lost), 4),
        "held out": [[round(value, 4) for value in line] for line in accuracy],
        "rows per second": round(model.metric.count / seconds),
    }  # fmt: skip


def main() -> None:
    """Run everything and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--electricity", type=Path, required=True, help="elec.csv, with a header")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0, help="of the order of the clothes")
    parser.add_argument("--out", type=Path, default=Path("results/streams.json"))
    options = parser.parse_args()
    jobs = [
        Job(stream, contestant, seed, options)
        for contestant in reversed(CONTESTANTS)  # the slowest first
        for stream in STREAMS
        for seed in range(1 if "no change" in contestant else options.seeds)
        if not ("regression" in contestant and seed)
    ]
    before = (files.read_json(options.out) or {}).get("runs", [])
    done = {
        (one["stream"], one["contestant"], one["seed"]): one
        for one in before
        if one["contestant"] in CONTESTANTS[1:]
    }
    missing = [job for job in jobs if (job.stream, job.contestant, job.seed) not in done]
    found = runner.run_all(run_one, missing, describe=lambda job: f"{job.contestant}, {job.stream}")
    runs = [*done.values(), *found]
    summary = []
    for stream in STREAMS:
        for contestant in CONTESTANTS:
            own = [r for r in runs if (r["stream"], r["contestant"]) == (stream, contestant)]
            row: dict[str, Any] = {"stream": stream, "contestant": contestant, "seeds": len(own)}
            for key in ("accuracy", "balanced accuracy", "at the end, all quarters", "forgetting"):
                row[key] = mean_and_spread([one[key] for one in own])
            row["rows per second"] = round(mean(one["rows per second"] for one in own))
            summary.append(row)
            print(row)  # noqa: T201
    publish.write_results(
        options.out,
        {
            "command": f"python benchmarks/streams.py --electricity elec.csv "
            f"--seeds {options.seeds}",
            "versions": cache.versions(), "summary": summary, "runs": runs,
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
