"""How long a save delays learning: AlexNet with importance and a buffer, as for the TV series."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

import torch
from torch import nn

from taskfree import MAS, Every, Hardest, Learner, checkpoint

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
import networks


def run(times: int = 5) -> dict[str, float]:
    """Seconds that the loop waits: until everything is on disk, and with a thread that writes."""
    torch.set_num_threads(1)
    model = networks.alexnet()
    learner = Learner(
        model, torch.optim.SGD(model.parameters(), lr=1e-4),
        loss=nn.CrossEntropyLoss(reduction="none"), when=Every(2), which=Hardest(4), how=MAS(1.0),
    )  # fmt: skip
    x, y = torch.randn(2, 3, 224, 224), torch.tensor([0, 1])
    for _ in range(3):
        learner.learn(x, y)
    seconds: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(times):
            for background, taken in seconds.items():
                started = perf_counter()
                saving = checkpoint.save(Path(folder), learner=learner, background=background)
                taken.append(perf_counter() - started)
                saving.wait()
        size = saving.file.stat().st_size
    return {
        "MiB": round(size / 2**20),
        "seconds, until it is on the disk": round(median(seconds[False]), 2),
        "seconds, with background=True": round(median(seconds[True]), 2),
    }
