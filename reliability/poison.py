"""Add bad samples to a stream: the final state must be that of the stream without them."""

from __future__ import annotations

import random
import warnings
from typing import Any

import torch
from subject import fingerprint, subject
from torch import Tensor

from taskfree import Learner
from taskfree._core import batch, finite
from taskfree._core.distributed import Joint
from taskfree._learner.objective import Objective

RATES = (1e-4, 1e-3, 1e-2, 0.1, 0.5)


def spoiled(row: Tensor, draw: random.Random) -> Tensor:
    """The sample with a nan or inf in one place or everywhere."""
    bad = row.clone()
    value = draw.choice([torch.nan, torch.inf, -torch.inf])
    bad[slice(None) if draw.random() < 0.5 else draw.randrange(len(bad))] = value
    return bad


def poison(x: Tensor, y: Tensor, rate: float, draw: random.Random) -> tuple[Tensor, Tensor, int]:
    """A batch with bad samples added, a fraction `rate` of all; and how many were added."""
    rows, labels, bad = [], [], 0
    for row, label in zip(x, y, strict=True):
        while draw.random() < rate:
            rows.append(spoiled(row, draw))
            labels.append(label)
            bad += 1
        rows.append(row)
        labels.append(label)
    return torch.stack(rows), torch.stack(labels), bad


def final(steps: int, rate: float, learner: Learner | None = None) -> tuple[str, int, int]:
    """The final fingerprint, the number of bad samples, and the number of skipped ones."""
    default, stream = subject(on_bad="skip")
    learner = learner or default
    draw, bad = random.Random(int(rate * 1e4)), 0
    for _ in range(steps):
        x, y = stream.next()
        if rate:
            x, y, more = poison(x, y, rate, draw)
            bad += more
        learner.learn(x, y)
    return fingerprint(learner, stream), bad, learner.skipped


def run(samples: int) -> dict[str, int]:
    """Learn this many good samples with each rate; return counts of what was found."""
    counts = {"streams": 0, "bad samples": 0, "skipped": 0, "mismatches": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, _, _ = final(samples // 8, 0)
        for rate in RATES:
            found, bad, skipped = final(samples // 8, rate)
            counts["streams"] += 1
            counts["bad samples"] += bad
            counts["skipped"] += skipped
            counts["mismatches"] += found != expected
    return counts


def without_guard(samples: int) -> dict[str, bool]:
    """A control, in a process of its own: inputs, losses and gradients are not checked."""
    batch.nonfinite_rows = lambda columns: None
    Objective.means = _means
    finite.step_is_safe = lambda optimizer, loss: True
    learner, _ = subject(when=None, how=None)
    final(samples // 8, 0.1, learner)
    return {"parameters are finite": finite.parameters_are_finite(learner.model)}


def _means(_: Objective, losses: Tensor, joint: Joint, gradient_step: int = 1) -> tuple[Any, ...]:
    """The mean losses, finite or not."""
    del gradient_step
    old = float(losses[: joint.replayed].mean()) if joint.replayed else 0.0
    return float(losses[joint.replayed :].mean()), old
