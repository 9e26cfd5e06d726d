"""Streams of points: quadrants of the paper's ball, and regressions."""

from __future__ import annotations

import torch

from taskfree.paper.streams import ball
from taskfree.paper.streams.changing import (
    CROSS_ENTROPY,
    ChangingStream,
    Samples,
    accuracy,
    explained,
    generator_of,
    mlp,
)


def quadrants(seed: int, part: int = 0, *, number: int = 2, steps: int = 200) -> ChangingStream:
    """The paper's synthetic stream: quadrants of the ball, one after the other."""
    generator = generator_of(seed, part)
    order = [1 + index % 4 for index in range(number)]
    batches = [b for q in order for b in ball.batches(*ball.quadrant(q, 20 * steps, generator), 20)]
    return ChangingStream(
        batches=batches,
        tests=[ball.quadrant(q, 1000, generator) for q in order],
        environments=[index for index in range(number) for _ in range(steps)],
        model=mlp([4, 100, 100, 2], generator), loss=CROSS_ENTROPY, score=accuracy,
        lr=0.05, repeats=5,
    )  # fmt: skip


def drifting(seed: int, part: int = 0, *, steps: int = 200) -> ChangingStream:
    """The four quadrants, each gradually replaced by the next over half of its time."""
    generator = generator_of(seed, part)
    pools = [ball.quadrant(q, 20 * steps * 2, generator) for q in (1, 2, 3, 4)]
    used = [0, 0, 0, 0]
    batches, environments = [], []
    for step in range(4 * steps):
        position = step / steps - 0.5
        # pure quadrants for half of the time, then a mixture with the next
        mixed = min(max((position % 1 - 0.25) / 0.5, 0), 1)
        weights = torch.zeros(4)
        now = min(max(int(position // 1), 0), 3)
        weights[now] += 1 - mixed
        weights[min(now + 1, 3)] += mixed
        if position < 0:
            weights = torch.tensor([1.0, 0, 0, 0])
        which = torch.multinomial(weights, 20, replacement=True, generator=generator).tolist()
        rows = []
        for q in which:
            rows.append((pools[q][0][used[q]], pools[q][1][used[q]]))
            used[q] += 1
        x, y = zip(*rows, strict=True)
        batches.append((torch.stack(x), torch.stack(y)))
        environments.append(int(weights.argmax()))
    return ChangingStream(
        batches=batches, tests=[ball.quadrant(q, 1000, generator) for q in (1, 2, 3, 4)],
        environments=environments,
        model=mlp([4, 100, 100, 2], generator), loss=CROSS_ENTROPY, score=accuracy,
        lr=0.05, repeats=5,
    )  # fmt: skip


def waves(seed: int, part: int = 0, *, steps: int = 200) -> ChangingStream:
    """Regression: two sine waves of three inputs, in one region of the input space at a time."""
    generator = generator_of(seed, part)
    directions = torch.randn(3, 2, generator=generator)
    centres = torch.tensor([[1.5, 0, 0], [-1.5, 0, 0], [0, 1.5, 0], [0, -1.5, 0]])

    def draw(environment: int, samples: int) -> Samples:
        x = centres[environment] + 0.6 * torch.randn(samples, 3, generator=generator)
        y = torch.sin(x @ directions) + 0.1 * torch.randn(samples, 2, generator=generator)
        return x, y

    return ChangingStream(
        batches=[draw(environment, 20) for environment in range(4) for _ in range(steps)],
        tests=[draw(environment, 1000) for environment in range(4)],
        environments=[environment for environment in range(4) for _ in range(steps)],
        model=mlp([3, 100, 100, 2], generator),
        loss=lambda outputs, targets: (outputs - targets).square().mean(1), score=explained,
        lr=0.05, repeats=5,
    )  # fmt: skip


def regimes(seed: int, part: int = 0, *, steps: int = 100) -> ChangingStream:
    """Regression: three regimes, each with its own sine wave, that come back: A B C A B C A B C.

    Three inputs say which regime it is.
    """
    generator = generator_of(seed, part)
    directions = 2 * torch.randn(3, 3, 1, generator=generator)
    centres = torch.tensor([[1.0, 0, 0], [-1.0, 0, 0], [0, 1.0, 0]])

    def draw(regime: int, samples: int) -> Samples:
        x = centres[regime] + 0.7 * torch.randn(samples, 3, generator=generator)
        y = torch.sin(x @ directions[regime]) + 0.1 * torch.randn(samples, 1, generator=generator)
        return torch.cat([x, torch.eye(3)[regime].expand(samples, 3)], 1), y

    order = [0, 1, 2] * 3
    return ChangingStream(
        batches=[draw(regime, 20) for regime in order for _ in range(steps)],
        tests=[draw(regime, 1000) for regime in range(3)],
        environments=[regime for regime in order for _ in range(steps)],
        model=mlp([6, 100, 100, 1], generator),
        loss=lambda outputs, targets: (outputs - targets).square().mean(1), score=explained,
        lr=0.05, repeats=5,
    )  # fmt: skip
