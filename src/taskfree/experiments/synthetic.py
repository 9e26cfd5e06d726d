"""The synthetic experiment: paper section 4.1 with Figures 2 and 3."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev
from time import perf_counter
from typing import Any

import torch
from rich.console import Console
from torch import Tensor, nn

from taskfree import arguments, report
from taskfree.experiments import pool, synthetic_figures
from taskfree.guards import NotFiniteError
from taskfree.how import MAS, Accumulate, Penalty
from taskfree.learner import Learner, Report
from taskfree.streams import ball
from taskfree.when import Plateau
from taskfree.which import Hardest


@dataclass(frozen=True)
class Config:
    """Points in 4-D, inside or outside the unit ball: two quadrants, one after the other.

    Compares online learning without a buffer, with the hard buffer, and the full method, from
    equal initial weights, and draws the paper's Figures 2 and 3.
    """

    out: Path = Path("results/synthetic")
    """where results.json, the figures and report.html go"""
    seeds: int = 20
    """how many seeds each setting runs with"""
    first_seed: int = 0
    """the first of them; the defaults below were chosen on seeds 100 to 111"""
    sweep_seeds: int = 20
    """how many seeds each strength of the penalty runs with; 0 leaves that comparison out"""
    strengths: tuple[float, ...] = (0.5, 2, 10, 50, 1e3, 1e4, 1e6)
    """the strengths compared, for both kinds of penalty"""
    samples: int = 4000
    """points in each quadrant"""
    test_samples: int = 2000
    """test points in each quadrant"""
    batch: int = 20
    """new points a time step"""
    repeats: int = 5
    """gradient steps a time step"""
    lr: float = 0.05
    """learning rate of SGD"""
    buffer: int = 30
    """capacity of the hard buffer"""
    window: int = 5
    """losses in the window"""
    mean: float = 0.2
    """threshold on the window's mean"""
    variance: float = 0.1
    """threshold on the window's variance"""
    strength: float = 10
    """strength of the penalty in the full method"""
    workers: int | None = None
    """processes; as many as there are cores if not given"""

    def __post_init__(self) -> None:
        for name in ("seeds", "samples", "test_samples", "batch", "repeats", "buffer"):
            arguments.whole(name, getattr(self, name), least=1)
        for name in ("first_seed", "sweep_seeds"):
            arguments.whole(name, getattr(self, name), least=0)
        if self.workers is not None:
            arguments.whole("workers", self.workers, least=1)
        arguments.number("lr", self.lr, above=0)
        Plateau(window=self.window, mean=self.mean, variance=self.variance)
        for strength in (self.strength, *self.strengths):
            MAS(strength)


@dataclass(frozen=True)
class Setting:
    """One way to learn; all settings of a seed see the same points from the same first weights."""

    name: str
    buffer: bool = True
    consolidate: bool = True
    accumulate: Accumulate = "mean"
    penalty: Penalty = "proximal"
    strength: float | None = None
    lr: float | None = None
    shuffled: bool = False


MAIN = (
    Setting("online, no buffer", buffer=False, consolidate=False),
    Setting("online", consolidate=False),
    Setting("online continual"),
)
EXTRA = (
    Setting("online, lr 0.02", consolidate=False, lr=0.02),
    Setting("continual, no buffer", buffer=False),
    Setting("continual, decay", accumulate="decay"),
    Setting("continual, gradient", penalty="gradient", strength=0.5),
    Setting("joint (shuffled)", consolidate=False, shuffled=True),
)


@dataclass(frozen=True)
class Job:
    """One setting with one seed; `draw` keeps what the figures need."""

    config: Config
    setting: Setting
    seed: int
    draw: bool = False


def run(config: Config) -> dict[str, Any]:
    """Run every setting and strength, and write results, figures and the report."""
    console = Console()
    config.out.mkdir(parents=True, exist_ok=True)
    seeds = range(config.first_seed, config.first_seed + config.seeds)
    jobs = [
        Job(config, setting, seed, draw=seed == seeds[0] and setting in MAIN)
        for setting in (*MAIN, *EXTRA)
        for seed in seeds
    ]
    swept = [
        Setting(f"{penalty} at {strength:g}", penalty=penalty, strength=strength)
        for penalty in ("proximal", "gradient")
        for strength in config.strengths
    ]
    jobs += [
        Job(config, setting, seed) for setting in swept for seed in seeds[: config.sweep_seeds]
    ]
    runs = pool.run_all(
        run_one,
        jobs,
        workers=config.workers,
        describe=lambda job: f"{job.setting.name}, {job.seed}",
    )
    drawn = {one["setting"]: one.pop("drawn") for one in runs if "drawn" in one}
    results: dict[str, Any] = {
        "command": pool.command("synthetic", config),
        "config": {
            key: value for key, value in asdict(config).items() if key not in ("out", "workers")
        },
        "versions": pool.versions(),
        "summary": summary(runs),
        "runs": runs,
    }
    pool.write_json(config.out / "results.json", results)
    names = [setting.name for setting in MAIN]
    rows = {row["setting"]: row for row in results["summary"]}
    figures = {"figure3.png": synthetic_figures.predictions(names, drawn, rows)}
    figures["figure2.png"] = report.figure_loss(
        drawn[MAIN[-1].name]["losses"],
        title="Synthetic stream: when the full method consolidates",
        changes=[config.samples // config.batch],
        thresholds={"mean threshold": config.mean},
    )
    if config.sweep_seeds:
        figures["strength.png"] = synthetic_figures.strengths(config.strengths, rows)
    for name, figure in figures.items():
        report.save(figure, config.out / name)
    shown = [rows[setting.name] for setting in (*MAIN, *EXTRA)]
    report.write_html(
        config.out / "report.html",
        title="The synthetic experiment",
        introduction=INTRODUCTION,
        tables={f"Accuracy in % after the second quadrant, {config.seeds} seeds": table(shown)},
        figures={name: (config.out / name, synthetic_figures.CAPTIONS[name]) for name in figures},
        details={"config": results["config"], "versions": results["versions"]},
    )
    title = f"Accuracy in % after the second quadrant, {shown[0]['seeds']} seeds"
    pool.print_table(title, table(shown), LEGEND)
    console.print(f"report: {config.out / 'report.html'}")
    return results


def run_one(job: Job) -> dict[str, Any]:
    """Learn both quadrants with one setting and one seed."""
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
        which=Hardest(config.buffer) if setting.buffer else None,
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
            for x, y in ball.batches(*part, config.batch):
                reports.append(learner.learn(x, y))
        except NotFiniteError:  # the learner stays where it was
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
            "grid": learner.predict(synthetic_figures.plane()).softmax(1)[:, 1].numpy(),
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
                spread = stdev(values) if len(values) > 1 else 0.0
                row[label + column] = [round(mean(values), 4), round(spread, 4)]
        row["consolidations"] = round(mean(len(one["consolidations"]) for one in chosen), 1)
        row["diverged"] = sum(one["diverged"] for one in chosen)
        rows.append(row)
    return rows


def table(rows: list[dict[str, Any]]) -> list[list[str]]:
    """The summary as text, its heading first."""
    columns = ["total", "first quadrant", "second quadrant", "flat total"]
    heading = ["setting", "total", "first", "second", "flat", "updates"]
    return [heading] + [
        [
            row["setting"],
            *(f"{100 * row[column][0]:.1f} ± {100 * row[column][1]:.1f}" for column in columns),
            f"{row['consolidations']:.1f}",
        ]
        for row in rows
    ]


INTRODUCTION = """Is a point in 4-D inside the unit ball? A small network learns from the first
quadrant, then from the second, each point seen in one time step only, and is tested on both.
Every setting starts from the same weights and sees the same points. The table gives mean ±
standard deviation over the seeds: total over both quadrants, the first and the second alone, and
the total on test points whose other two coordinates are 0, as the authors tested."""

LEGEND = (
    "flat: total on the authors' flattened test points; "
    "updates: how often the importance was updated"
)
