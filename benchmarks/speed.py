"""Speed as ratios within one run: importance and time step against plain loops.

Each measurement runs its contestants alternately, so that a busy moment affects all of them, and
reports the median of each as a ratio to that of the plain loop. One thread. It writes
results/speed/.
"""

from __future__ import annotations

import argparse
import copy
import resource
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

import networks
import peers
import torch
from authors import AuthorsDemo, AuthorsWay
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter
from torch import nn

from taskfree import MAS, Every, Hardest, Learner, Plateau
from taskfree._core.model import trainable
from taskfree.how.importance import estimate, general
from taskfree.observe import figures
from taskfree.paper import cache, publish
from taskfree.paper.streams import ball
from taskfree.paper.synthetic import experiment as synthetic
from taskfree.when import Trigger

LOSS = nn.CrossEntropyLoss(reduction="none")
Row = dict[str, object]


def race(contestants: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The median time of each contestant; they run alternately."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(repeats + 1):
        for name, run in contestants.items():
            started = perf_counter()
            run()
            if turn:  # the first turn warms up
                times[name].append(perf_counter() - started)
    return {name: median(values) for name, values in times.items()}


def rows_of(measure: str, network: str, samples: int, times: dict[str, float]) -> list[Row]:
    """One row per contestant, with its ratio to the first."""
    plain = next(iter(times.values()))
    return [
        {
            "measure": measure, "network": network, "samples": samples, "contestant": name,
            "milliseconds": round(1e3 * seconds, 3), "ratio": round(seconds / plain, 3),
        }
        for name, seconds in times.items()
    ]  # fmt: skip


def importance_rows(
    name: str, model: nn.Module, x: torch.Tensor, repeats: int, slow: bool = False
) -> list[Row]:
    """Exact importance against one plain forward and backward pass over the same samples."""
    model.eval()

    def plain() -> None:
        model.zero_grad()
        model(x).square().sum().backward()

    def batch_approximation() -> None:
        plain()
        torch._foreach_abs([value.grad for value in model.parameters()])

    def vectorised() -> None:
        general._vectorised(model, trainable(model), x, "squared")

    def one_by_one() -> None:
        general._one_by_one(model, trainable(model), x, "squared")

    contestants: dict[str, Callable[[], object]] = {
        "plain forward + backward": plain,
        "taskfree, exact": lambda: estimate(model, x),
        "batch approximation, not exact": batch_approximation,
    }
    if slow:
        contestants |= {
            "torch.func.vmap, exact": vectorised,
            "one sample at a time, exact": one_by_one,
            **peers.per_sample(lambda: copy.deepcopy(model), x),
        }
    return rows_of("importance", name, len(x), race(contestants, repeats))


def step_rows(
    name: str, model: nn.Module, x: torch.Tensor, classes: int, new: int, held: int, repeats: int
) -> list[Row]:
    """A time step of the full method against plain SGD on a joint batch of the same size."""
    plain_model = copy.deepcopy(model)
    y = torch.randint(classes, (len(x),))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    plain_optimizer = torch.optim.SGD(plain_model.parameters(), lr=1e-6)
    learner = Learner(
        model, optimizer, loss=LOSS, when=Every(10**9), which=Hardest(held), how=MAS(1.0)
    )
    batches = list(zip(x.split(new), y.split(new), strict=True))
    while len(learner.which) < held:
        for batch in batches:
            learner.learn(*batch)
    learner.how.consolidate(model, learner.which.inputs)
    joint_x = learner.which.inputs.repeat(2 + new // held, *[1] * (x.dim() - 1))[
        : new + held
    ].clone()
    joint_y = learner.which.targets.repeat(2 + new // held)[: new + held].clone()
    turn = iter(range(10**9))

    def plain() -> None:
        plain_optimizer.zero_grad()
        loss = nn.functional.cross_entropy(plain_model(joint_x), joint_y)
        loss.backward()
        plain_optimizer.step()
        loss.item()

    contestants = {
        "plain SGD on the joint batch": plain,
        "taskfree, full method": lambda: learner.learn(*batches[next(turn) % len(batches)]),
    }
    return rows_of("step", name, new + held, race(contestants, repeats))


def stream_rows(repeats: int) -> list[Row]:
    """The whole synthetic stream: 400 time steps of 5 gradient steps."""
    generator = torch.Generator().manual_seed(0)
    batches = [
        batch
        for number in (1, 2)
        for batch in ball.batches(*ball.quadrant(number, 4000, generator), 20)
    ]

    def network() -> nn.Module:
        return synthetic.network(torch.Generator().manual_seed(0))

    def plain() -> None:
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        held_x, held_y = batches[0][0].repeat(2, 1)[:30], batches[0][1].repeat(2)[:30]
        for x, y in batches:
            joint_x, joint_y = torch.cat([x, held_x]), torch.cat([y, held_y])
            for _ in range(5):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(joint_x), joint_y)
                loss.backward()
                optimizer.step()
            loss.item()

    def ours(name: str, penalty: str, when: Trigger) -> None:
        model = network()
        learner = Learner(
            model, torch.optim.SGD(model.parameters(), lr=0.05), loss=LOSS, repeats=5,
            when=when, which=Hardest(30), how=MAS(0.5, penalty=penalty),
        )  # fmt: skip
        consolidated[name] = sum(learner.learn(*batch).consolidated for batch in batches)

    def authors(name: str, way: type[AuthorsWay]) -> None:
        other = way(network(), lr=0.05, repeats=5, capacity=30, strength=0.5)
        consolidated[name] = sum(other.learn(*batch) for batch in batches)

    def plateau() -> Plateau:
        return Plateau(window=5, mean=0.2, variance=0.1)

    contestants: dict[str, Callable[[str], object]] = {
        "plain SGD on a joint batch": lambda _: plain(),
        "taskfree, proximal": lambda name: ours(name, "proximal", plateau()),
        "taskfree, the paper's penalty": lambda name: ours(name, "gradient", plateau()),
        "taskfree, consolidating every step": lambda name: ours(name, "proximal", Every(1)),
        "the authors' way, on tensors": lambda name: authors(name, AuthorsWay),
        "the authors' way, on arrays as their demo": lambda name: authors(name, AuthorsDemo),
    }
    for name, run in peers.avalanche(batches, network, 0.05, 5, 30).items():
        contestants[name] = lambda _, run=run: run()
    consolidated: dict[str, int] = {}
    times = race({name: partial(run, name) for name, run in contestants.items()}, repeats)
    rows = rows_of("stream", "MLP", 50, times)
    for row in rows:
        if row["contestant"] in consolidated:
            row["consolidations"] = consolidated[str(row["contestant"])]
    return rows


def growth_rows(few: int) -> list[Row]:
    """How the times of step and importance grow with the buffer and the network."""
    rows: list[Row] = []
    for held in (30, 100, 300, 1000):
        found = step_rows("MLP", networks.mlp(), torch.randn(4000, 4), 2, 20, held, 600 // few)
        x = torch.randn(held, 4)
        found += importance_rows("MLP", networks.mlp(), x, 300 // few)
        rows += [row | {"growth": "buffer", "size": held} for row in found]
    sizes = ((1e4, 600), (1e5, 600), (1e6, 100), (4e6, 40), (1.6e7, 10), (6e7, 5))
    for size, repeats in sizes[: 3 if few > 1 else None]:
        found = step_rows(
            f"connected {size:.0e}", networks.connected(size), torch.randn(2000, 64), 10, 20, 30,
            max(1, repeats // few),
        )  # fmt: skip
        found += importance_rows(
            f"connected {size:.0e}", networks.connected(size), torch.randn(30, 64),
            max(1, repeats // few),
        )  # fmt: skip
        rows += [row | {"growth": "parameters", "size": int(size)} for row in found]
    return rows


def memory_row(model: nn.Module, x: torch.Tensor) -> Row:
    """Extra memory of a second importance update, in copies of the parameters."""
    how = MAS(1.0)
    how.consolidate(model, x[:2])
    how.after_step(model, torch.optim.SGD(model.parameters(), lr=1e-6))
    parameters = sum(value.numel() * value.element_size() for value in model.parameters())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    how.consolidate(model, x)
    extra = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    return {
        "measure": "extra peak memory",
        "network": "AlexNet",
        "samples": len(x),
        "contestant": "taskfree, exact",
        "copies of the parameters": round(extra / parameters, 2),
    }


def bars(rows: list[Row], path: Path) -> None:
    """Draw the ratios as bars, one panel per measurement."""
    found = {
        measure: [
            row
            for row in rows
            if row["measure"] == measure
            and "plain" not in str(row["contestant"])
            and row.get("growth") != "buffer"
            and not (measure == "importance" and "growth" in row)
        ]
        for measure in ("importance", "step", "stream")
    }
    heights = [len(shown) for shown in found.values()]
    figure = Figure(figsize=(11, 1.5 + 0.28 * sum(heights)), layout="constrained")
    panels = figure.subplots(3, 1, height_ratios=heights)
    for axis, (measure, shown) in zip(panels, found.items(), strict=True):
        names = [
            f"{row['network']}, {row['samples']} samples: {row['contestant']}" for row in shown
        ]
        own = ["taskfree" in str(row["contestant"]) for row in shown]
        found_bars = axis.barh(
            names,
            [row["ratio"] for row in shown],
            color=[figures.COLOURS[0] if ours else "0.7" for ours in own],
        )
        axis.bar_label(found_bars, [f"{row['ratio']:.2f}" for row in shown], padding=3)
        axis.axvline(1, color="black", linewidth=1, label="plain loop on the same samples")
        axis.set(title=measure.capitalize(), xlabel="time relative to the plain loop")
        if measure != "step":
            axis.set(xscale="log", xlabel="time relative to the plain loop (log scale)")
            axis.xaxis.set_major_formatter(ScalarFormatter())
        axis.margins(x=0.1, y=0.02)
        axis.invert_yaxis()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center")
    figures.save(figure, path)


def growth(rows: list[Row], path: Path) -> None:
    """Draw milliseconds against the sizes of the buffer and the network."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    panels = figure.subplots(1, 2)
    titles = {
        "buffer": ("Buffer, MLP 4-100-100-2", "samples in the buffer"),
        "parameters": ("Network, 20 new samples and 30 in the buffer", "parameters"),
    }
    for axis, (what, (title, label)) in zip(panels, titles.items(), strict=True):
        for number, measure in enumerate(("step", "importance")):
            for contestant, dashes in (("plain", "--"), ("taskfree", "-")):
                shown = [
                    row
                    for row in rows
                    if row.get("growth") == what
                    and row["measure"] == measure
                    and str(row["contestant"]).startswith(contestant)
                ]
                axis.plot(
                    [row["size"] for row in shown],
                    [row["milliseconds"] for row in shown],
                    dashes,
                    marker="o",
                    color=figures.COLOURS[number],
                    label=f"{measure}: {contestant}",
                )
        axis.set(xscale="log", yscale="log", title=title, xlabel=label, ylabel="milliseconds")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figures.save(figure, path)


def main() -> None:
    """Measure everything and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/speed"))
    parser.add_argument("--quick", action="store_true", help="few repeats, no AlexNet")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    few = 10 if options.quick else 1
    rows: list[Row] = []
    images = torch.randn(100, 3, 128, 128)
    if not options.quick:
        large = torch.randn(100, 3, 224, 224)
        rows.append(memory_row(networks.alexnet(), large))
    rows += importance_rows("MLP", networks.mlp(), torch.randn(100, 4), 300 // few, slow=True)
    rows += importance_rows("Tiny v2", networks.tiny(), images, 30 // few)
    rows += importance_rows("Tiny v2", networks.tiny(), images[:20], 10 // few, slow=True)
    rows += step_rows("MLP", networks.mlp(), torch.randn(2000, 4), 2, 20, 30, 2000 // few)
    rows += step_rows("Tiny v2", networks.tiny(), images, 3, 20, 40, 60 // few)
    rows += stream_rows(max(1, 7 // few))
    rows += growth_rows(few)
    if not options.quick:
        rows += importance_rows("AlexNet", networks.alexnet(), large, 5)
        rows += importance_rows("AlexNet", networks.alexnet(), large[:8], 2, slow=True)
        rows += step_rows("AlexNet", networks.alexnet(), large[:64], 100, 32, 32, 8)
    for row in rows:
        print("  ".join(f"{value}" for value in row.values()))  # noqa: T201
    options.out.mkdir(parents=True, exist_ok=True)
    content = {"command": "make bench", "versions": cache.versions(), "rows": rows}
    publish.write_results(options.out / "speed.json", content)
    bars(rows, options.out / "speed.png")
    growth(rows, options.out / "growth.png")


if __name__ == "__main__":
    main()
