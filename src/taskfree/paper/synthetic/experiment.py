"""The synthetic experiment: paper section 4.1 with Figures 2 and 3."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from taskfree._core import validation
from taskfree._core.errors import NotFiniteError
from taskfree.how import MAS
from taskfree.how.mas import Accumulate, Penalty
from taskfree.learner import Learner
from taskfree.observe.events import Report
from taskfree.observe.figures import figure_loss
from taskfree.paper import runner, statistics
from taskfree.paper.publish import publish
from taskfree.paper.streams import ball
from taskfree.paper.synthetic import figures
from taskfree.when import Plateau
from taskfree.which import Hardest


@dataclass(frozen=True)
class SyntheticConfig:
    """Points in 4-D, inside or outside the unit ball: two quadrants, one after the other.

    Compares online learning without a buffer, online learning with the hard buffer, and the full
    method, from equal initial weights, and draws the paper's Figures 2 and 3.
    """

    out: Path = Path("results/synthetic")
    """where results.json, the figures and report.html go"""
    seeds: int = 20
    """seeds per setting"""
    first_seed: int = 0
    """the first seed; the settings below were chosen on seeds 100 to 111"""
    sweep_seeds: int = 20
    """seeds per strength of the penalty; 0 skips this comparison"""
    strengths: tuple[float, ...] = (0.5, 2, 10, 50, 1e3, 1e4, 1e6)
    """strengths to compare, for both penalties"""
    samples: int = 4000
    """points in each quadrant"""
    test_samples: int = 2000
    """test points in each quadrant"""
    batch_size: int = 20
    """new points per time step"""
    repeats: int = 5
    """gradient steps per time step"""
    lr: float = 0.05
    """learning rate of SGD"""
    buffer_size: int = 30
    """capacity of the hard buffer"""
    window: int = 5
    """losses in the trigger's window"""
    mean: float = 0.2
    """threshold on the window's mean"""
    variance: float = 0.1
    """threshold on the window's variance"""
    strength: float = 10
    """strength of the penalty in the full method"""
    workers: int | None = None
    """processes; one per core by default"""

    def __post_init__(self) -> None:
        for name in ("seeds", "samples", "test_samples", "batch_size", "repeats", "buffer_size"):
            validation.integer(name, getattr(self, name), least=1)
        for name in ("first_seed", "sweep_seeds"):
            validation.integer(name, getattr(self, name), least=0)
        if self.workers is not None:
            validation.integer("workers", self.workers, least=1)
        validation.number("lr", self.lr, above=0)
        Plateau(window=self.window, mean=self.mean, variance=self.variance)
        for strength in (self.strength, *self.strengths):
            MAS(strength)


@dataclass(frozen=True)
class SyntheticSetting:
    """A way to learn; all settings of a seed see the same points from the same initial weights."""

    name: str
    buffer: bool = True
    consolidate: bool = True
    accumulate: Accumulate = "mean"
    penalty: Penalty = "proximal"
    strength: float | None = None
    lr: float | None = None
    shuffled: bool = False


MAIN = (
    SyntheticSetting("online, no buffer", buffer=False, consolidate=False),
    SyntheticSetting("online", consolidate=False),
    SyntheticSetting("online continual"),
)
EXTRA = (
    SyntheticSetting("online, lr 0.02", consolidate=False, lr=0.02),
    SyntheticSetting("continual, no buffer", buffer=False),
    SyntheticSetting("continual, decay", accumulate="decay"),
    SyntheticSetting("continual, gradient", penalty="gradient", strength=0.5),
    SyntheticSetting("joint (shuffled)", consolidate=False, shuffled=True),
)


@dataclass(frozen=True)
class SyntheticJob:
    """A setting with a seed; with `draw`, the result includes the data of the figures."""

    config: SyntheticConfig
    setting: SyntheticSetting
    seed: int
    draw: bool = False


def run(config: SyntheticConfig) -> dict[str, Any]:
    """Run every setting and strength, and publish the results."""
    config.out.mkdir(parents=True, exist_ok=True)  # fails early if it cannot
    seeds = range(config.first_seed, config.first_seed + config.seeds)
    jobs = [
        SyntheticJob(config, setting, seed, draw=seed == seeds[0] and setting in MAIN)
        for setting in (*MAIN, *EXTRA)
        for seed in seeds
    ]
    swept = [
        SyntheticSetting(f"{penalty} at {strength:g}", penalty=penalty, strength=strength)
        for penalty in ("proximal", "gradient")
        for strength in config.strengths
    ]
    jobs += [
        SyntheticJob(config, setting, seed)
        for setting in swept
        for seed in seeds[: config.sweep_seeds]
    ]
    runs = runner.run_all(
        run_one,
        jobs,
        workers=config.workers,
        describe=lambda job: f"{job.setting.name}, {job.seed}",
    )
    drawn = {one["setting"]: one.pop("drawn") for one in runs if "drawn" in one}
    rows = {row["setting"]: row for row in summary(runs)}
    drawn_figures = {
        "figure3.png": figures.predictions([setting.name for setting in MAIN], drawn, rows),
        "figure2.png": figure_loss(
            drawn[MAIN[-1].name]["losses"],
            title="Synthetic stream: when the full method consolidates",
            changes=[config.samples // config.batch_size],
            thresholds={"mean threshold": config.mean},
        ),
    }
    if config.sweep_seeds:
        drawn_figures["strength.png"] = figures.strengths(config.strengths, rows)
    shown = [rows[setting.name] for setting in (*MAIN, *EXTRA)]
    return publish(
        "synthetic",
        config,
        title="The synthetic experiment",
        introduction=INTRODUCTION,
        found={"summary": list(rows.values()), "runs": runs},
        tables={f"Accuracy (%) after the second quadrant, {config.seeds} seeds": table(shown)},
        figures={name: (one, figures.CAPTIONS[name]) for name, one in drawn_figures.items()},
    )


def run_one(job: SyntheticJob) -> dict[str, Any]:
    """Learn both quadrants with a setting and a seed."""
    config, setting = job.config, job.setting
    started = perf_counter()
    generator = torch.Generator().manual_seed(job.seed)
    model = network(generator)
    parts = [ball.quadrant(number, config.samples, generator) for number in (1, 2)]
    tests = {
        flat: [
            ball.quadrant(number, config.test_samples, generator, flat=flat) for number in (1, 2)
        ]
        for flat in (False, True)
    }
    if setting.shuffled:
        x, y = (torch.cat(columns) for columns in zip(*parts, strict=True))
        order = torch.randperm(len(x), generator=generator)
        parts = [(x[order], y[order])]
    strength = config.strength if setting.strength is None else setting.strength
    learner = Learner(
        model,
        torch.optim.SGD(model.parameters(), lr=setting.lr or config.lr),
        loss=nn.CrossEntropyLoss(reduction="none"),
        when=Plateau(window=config.window, mean=config.mean, variance=config.variance),
        which=Hardest(config.buffer_size) if setting.buffer else None,
        how=MAS(strength, accumulate=setting.accumulate, penalty=setting.penalty)
        if setting.consolidate
        else None,
        repeats=config.repeats,
    )

    def accuracy() -> dict[str, Any]:
        on = {
            kind: [score(learner, *test) for test in tests[kind == "flat"]]
            for kind in ("accuracy", "flat")
        }
        return on | {"total": mean(on["accuracy"]), "flat total": mean(on["flat"])}

    reports: list[Report] = []
    after = []
    initial, diverged = accuracy(), False
    for part in parts:
        try:
            for x, y in ball.batches(*part, config.batch_size):
                reports.append(learner.learn(x, y))
        except NotFiniteError:  # the learner is unchanged
            diverged = True
        after.append(accuracy())
    result: dict[str, Any] = {
        "setting": setting.name,
        "seed": job.seed,
        "strength": strength if setting.consolidate else None,
        "initial": initial,
        "after": after,
        "diverged": diverged or not learner.predict(tests[False][0][0]).isfinite().all(),
        "consolidations": [report.step for report in reports if report.consolidated],
        "peaks": [report.step for report in reports if report.peak],
        "seconds": round(perf_counter() - started, 2),
    }
    if job.draw:
        test, labels = tests[True][0]
        result["drawn"] = {
            "losses": reports,
            "grid": learner.predict(figures.plane()).softmax(1)[:, 1].numpy(),
            "points": test[:400, :2].numpy(),
            "wrong": (learner.predict(test[:400]).argmax(1) != labels[:400]).numpy(),
        }
    return result


def network(generator: torch.Generator) -> nn.Module:
    """The authors' network: 4-100-100-2, no last bias, every weight from N(0, 0.1)."""
    model = nn.Sequential(
        nn.Linear(4, 100),
        nn.ReLU(),
        nn.Linear(100, 100),
        nn.ReLU(),
        nn.Linear(100, 2, bias=False),
    )
    for value in model.parameters():
        nn.init.normal_(value, std=0.1, generator=generator)
    return model


def score(learner: Learner, x: Tensor, y: Tensor) -> float:
    """The accuracy on test points."""
    return float((learner.predict(x).argmax(1) == y).float().mean())


def summary(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean and standard deviation over the seeds of each setting, after the second quadrant."""
    rows = []
    for name in dict.fromkeys(one["setting"] for one in runs):
        chosen = [one for one in runs if one["setting"] == name]
        row: dict[str, Any] = {"setting": name, "seeds": len(chosen)}
        for kind, label in (("accuracy", ""), ("flat", "flat ")):
            last = [one["after"][-1][kind] for one in chosen]
            columns = {
                "first quadrant": [first for first, _ in last],
                "second quadrant": [second for _, second in last],
                "total": [(first + second) / 2 for first, second in last],
            }
            for column, values in columns.items():
                row[label + column] = statistics.mean_and_spread(values)
        row["consolidations"] = round(mean(len(one["consolidations"]) for one in chosen), 1)
        row["diverged"] = sum(one["diverged"] for one in chosen)
        rows.append(row)
    return rows


def table(rows: list[dict[str, Any]]) -> list[list[str]]:
    """The summary as text, its heading first."""
    columns = ["total", "first quadrant", "second quadrant", "flat total"]
    heading = ["setting", "both", "first", "second", "both, flat", "consolidations"]
    return [heading] + [
        [
            row["setting"],
            *(statistics.text(row[column]) for column in columns),
            f"{row['consolidations']:.1f}",
        ]
        for row in rows
    ]


INTRODUCTION = """Is a point in 4-D inside the unit ball? A small network learns from the first
quadrant, then from the second, each point in one time step only, and is tested on both. Every
setting starts from the same weights and sees the same points. The table gives mean ± standard
deviation over the seeds: accuracy on both quadrants, on the first and on the second, and on test
points of both whose other two coordinates are 0, as the authors tested (flat)."""
