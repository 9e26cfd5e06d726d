"""Bad samples put into a stream: the state at the end is that of the stream without them."""

from __future__ import annotations

import random
import warnings

import torch
from subject import fingerprint, subject
from torch import Tensor

from taskfree import Learner, batch, guards

RATES = (1e-4, 1e-3, 1e-2, 0.1, 0.5)


def spoiled(row: Tensor, chance: random.Random) -> Tensor:
    """The sample with a nan or inf somewhere, or everywhere."""
    bad = row.clone()
    value = chance.choice([torch.nan, torch.inf, -torch.inf])
    bad[slice(None) if chance.random() < 0.5 else chance.randrange(len(bad))] = value
    return bad


def poison(x: Tensor, y: Tensor, rate: float, chance: random.Random) -> tuple[Tensor, Tensor, int]:
    """A batch with bad samples among the good, so that they are `rate` of all; how many."""
    rows, labels, bad = [], [], 0
    for row, label in zip(x, y, strict=True):
        while chance.random() < rate:
            rows.append(spoiled(row, chance))
            labels.append(label)
            bad += 1
        rows.append(row)
        labels.append(label)
    return torch.stack(rows), torch.stack(labels), bad


def final(steps: int, rate: float, learner: Learner | None = None) -> tuple[str, int, int]:
    """The fingerprint at the end, how many bad samples there were, and how many were skipped."""
    made, stream = subject(on_bad="skip")
    learner = learner or made
    chance, bad = random.Random(int(rate * 1e4)), 0
    for _ in range(steps):
        x, y = stream.next()
        if rate:
            x, y, more = poison(x, y, rate, chance)
            bad += more
        learner.learn(x, y)
    return fingerprint(learner, stream), bad, learner.skipped


def run(samples: int) -> dict[str, int]:
    """So many good samples for each rate; counts of what was found."""
    torch.set_num_threads(1)
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
    """A control: nothing looks at inputs, losses and gradients. The parameters do not survive."""
    kept = batch.not_finite, Learner._means, guards.step_is_safe
    batch.not_finite = lambda columns: None
    Learner._means = (
        lambda self, losses, joint, number=1: (  # type: ignore[assignment]
            float(losses[joint.held :].mean()),
            float(losses[: joint.held].mean()) if joint.held else 0.0,
        )
    )
    guards.step_is_safe = lambda optimizer, loss: True
    learner, _ = subject(when=None, how=None)
    try:
        final(samples // 8, 0.1, learner)
    finally:
        batch.not_finite, Learner._means, guards.step_is_safe = kept
    return {"parameters are finite": guards.parameters_are_finite(learner.model)}
