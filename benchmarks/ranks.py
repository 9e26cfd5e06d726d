"""Two ranks against one process, one thread each, with the same global batch.

It starts itself with one rank and with two, alternately and several times, and reports the medians.
It writes results/ranks.json.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

import networks
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

from taskfree import MAS, Every, Hardest, Learner
from taskfree.paper import cache, publish

CASES = {
    "MLP, 50 samples": (networks.mlp, (4,), 2, 20, 30, 200),
    "Tiny v2, 60 samples": (networks.tiny, (3, 128, 128), 3, 20, 40, 20),
    "Tiny v2, 300 samples": (networks.tiny, (3, 128, 128), 3, 260, 40, 8),
    "AlexNet, 64 samples": (networks.alexnet, (3, 224, 224), 100, 32, 32, 3),
}


def work(rank: int, ranks: int, meeting: str, case: str, out: str) -> None:
    """Measure the time per step on this many ranks."""
    torch.set_num_threads(1)
    if ranks > 1:
        dist.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=ranks)
    make, shape, classes, new, held, steps = CASES[case]
    torch.manual_seed(0)
    model = make()
    learner = Learner(
        model, torch.optim.SGD(model.parameters(), lr=1e-6), when=Every(10**9),
        loss=nn.CrossEntropyLoss(reduction="none"), which=Hardest(held), how=MAS(1.0),
    )  # fmt: skip
    x, y = torch.randn(new, *shape), torch.randint(classes, (new,))
    x, y = x.tensor_split(ranks)[rank], y.tensor_split(ranks)[rank]
    while len(getattr(learner.which, "whole", learner.which)) < held:
        learner.learn(x, y)
    learner.how.consolidate(model, learner.which.inputs)
    learner.learn(x, y)
    times = []
    for _ in range(steps):
        started = perf_counter()
        learner.learn(x, y)
        times.append(perf_counter() - started)
    if rank == 0:
        Path(out).write_text(json.dumps(median(times)))
    if ranks > 1:
        dist.destroy_process_group()


def measure(case: str, ranks: int) -> float:
    """Seconds per step."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "seconds"
        arguments = (ranks, f"{folder}/meeting", case, str(out))
        mp.start_processes(work, arguments, nprocs=ranks, start_method="spawn")
        return float(json.loads(out.read_text()))


def main() -> None:
    """Measure all cases and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/ranks.json"))
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    rows = []
    for case in CASES:
        times = [(measure(case, 1), measure(case, 2)) for _ in range(options.turns)]
        one, two = (median(column) for column in zip(*times, strict=True))
        row = {"case": case, "one ms": one * 1e3, "two ms": two * 1e3, "faster by": one / two}
        rows.append({k: round(v, 2) if isinstance(v, float) else v for k, v in row.items()})
        print(rows[-1])  # noqa: T201
    content = {"command": "make bench", "versions": cache.versions(), "rows": rows}
    publish.write_results(options.out, content)


if __name__ == "__main__":
    main()
