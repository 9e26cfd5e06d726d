"""A time step of the default against replay written by hand on the same number of samples.

Ratios of medians within one run, one thread. It writes results/replay.json.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

import networks
import torch
from speed import LOSS, Row, race, rows_of
from torch import Tensor, nn

from taskfree import Learner, Reservoir, Teacher
from taskfree.paper import cache, publish

CAPACITY = 500


def by_hand(model: nn.Module, batches: Iterator[tuple[Tensor, Tensor]]) -> Callable[[], object]:
    """Replay from a reservoir in fifteen lines: what a user would write instead."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    x, y = next(batches)
    held_x, held_y = x.new_empty(CAPACITY, *x.shape[1:]), y.new_empty(CAPACITY)
    seen = 0

    def step() -> float:
        nonlocal seen
        x, y = next(batches)
        known = min(seen, CAPACITY)
        rows = torch.randperm(known)[: 2 * len(x)]
        outputs = model(torch.cat([x, held_x[rows]]))
        losses = LOSS(outputs, torch.cat([y, held_y[rows]]))
        loss = losses[: len(x)].mean()
        if known:
            loss = loss + losses[len(x) :].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for row in range(len(x)):
            at = seen if seen < CAPACITY else int(torch.randint(seen + 1, ()))
            if at < CAPACITY:
                held_x[at], held_y[at] = x[row], y[row]
            seen += 1
        return loss.item()

    return step


def step_rows(
    name: str, model: nn.Module, x: Tensor, classes: int, new: int, repeats: int
) -> list[Row]:
    """The default, and its parts, against replay by hand."""
    y = torch.randint(classes, (len(x),))
    batches = cycle(zip(x.split(new), y.split(new), strict=True))

    def learner(**components: object) -> Callable[[], object]:
        own = copy.deepcopy(model)
        optimizer = torch.optim.SGD(own.parameters(), lr=1e-6)
        made = Learner(own, optimizer, loss=LOSS, **components)
        return lambda: made.learn(*next(batches))

    contestants = {
        "replay by hand": by_hand(copy.deepcopy(model), batches),
        "replay alone": learner(which=Reservoir(CAPACITY), how=None),
        "with averaged weights, and who answers": learner(
            which=Reservoir(CAPACITY), how=Teacher(strength=0)
        ),
        "with held outputs": learner(which=Reservoir(CAPACITY), how=Teacher()),
        "the default: with a class-balanced buffer, and MAS": learner(),
    }
    for _ in range(CAPACITY // new + 1):  # fill the buffers
        for step in contestants.values():
            step()
    return rows_of("default step", name, 3 * new, race(contestants, repeats))


def main() -> None:
    """Measure everything and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/replay.json"))
    parser.add_argument("--quick", action="store_true", help="few repeats")
    parser.add_argument("--networks", nargs="+", default=["MLP", "Tiny v2", "AlexNet"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    few = 10 if options.quick else 1
    images, large = torch.randn(100, 3, 128, 128), torch.randn(64, 3, 224, 224)
    cases = {
        "MLP": (networks.mlp, torch.randn(2000, 4), 2, 20, 3000 // few),
        "Tiny v2": (networks.tiny, images, 3, 20, 40 // few),
        "AlexNet": (networks.alexnet, large, 100, 16, 8 // few + 1),
    }
    rows = []
    for name in options.networks:
        make, *case = cases[name]
        rows += step_rows(name, make(), *case)
    for row in rows:
        print("  ".join(f"{value}" for value in row.values()))  # noqa: T201
    named = " ".join(map(repr, options.networks)) + " --quick" * options.quick
    content = {
        "command": f"python benchmarks/replay.py --networks {named}",
        "versions": cache.versions(),
        "rows": rows,
    }
    publish.write_results(options.out, content)


if __name__ == "__main__":
    main()
