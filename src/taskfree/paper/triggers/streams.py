"""Streams with sudden, gradual and recurring concept drift, in the inputs or also in the labels.

Each is a function of a seed and a part of the data. Settings are chosen on `part=1` and evaluated
on `part=0`: other points, other images, other permutations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from taskfree.paper.synthetic import ball
from taskfree.paper.triggers import fashion

Samples = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class ChangingStream:
    """A stream of batches from several environments, with a model, a loss and a score.

    The learner does not get `environments` or `changes`.
    """

    batches: list[Samples]
    tests: list[Samples]
    """Test samples of every environment."""
    environments: list[int]
    """For each batch, the environment of most of its samples."""
    model: nn.Module
    loss: Callable[[Any, Any], Tensor]
    score: Callable[[Tensor, Tensor], float]
    """The quality of outputs: 1 is perfect, 0 is useless."""
    lr: float
    repeats: int

    @property
    def changes(self) -> list[int]:
        """The steps at which another environment starts, counted from 0."""
        steps = range(1, len(self.environments))
        return [step for step in steps if self.environments[step] != self.environments[step - 1]]


def accuracy(outputs: Tensor, targets: Tensor) -> float:
    """The fraction of samples whose largest output is at the target.

    >>> accuracy(torch.eye(2), torch.tensor([0, 0]))
    0.5
    """
    return float((outputs.argmax(1) == targets).float().mean())


def explained(outputs: Tensor, targets: Tensor) -> float:
    """The fraction of the targets' variance that outputs explain, at least 0.

    >>> explained(torch.tensor([[0.0], [2.0]]), torch.tensor([[0.0], [2.0]]))
    1.0
    """
    error = (outputs - targets).square().mean() / (targets - targets.mean(0)).square().mean()
    return max(0.0, 1 - float(error))


def _generator(seed: int, part: int) -> torch.Generator:
    return torch.Generator().manual_seed(1_000_003 * (part + 1) + seed)


def _mlp(sizes: Sequence[int], generator: torch.Generator) -> nn.Module:
    """A fully connected network with torch's default initialization."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**31, (1,), generator=generator)))
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(sizes):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        return nn.Sequential(*layers[:-1])


CROSS_ENTROPY = nn.CrossEntropyLoss(reduction="none")


def quadrants(seed: int, part: int = 0, *, number: int = 2, steps: int = 200) -> ChangingStream:
    """The paper's synthetic stream: quadrants of the ball, one after the other."""
    generator = _generator(seed, part)
    order = [1 + index % 4 for index in range(number)]
    batches = [b for q in order for b in ball.batches(*ball.quadrant(q, 20 * steps, generator), 20)]
    return ChangingStream(
        batches=batches,
        tests=[ball.quadrant(q, 1000, generator) for q in order],
        environments=[index for index in range(number) for _ in range(steps)],
        model=_mlp([4, 100, 100, 2], generator), loss=CROSS_ENTROPY, score=accuracy,
        lr=0.05, repeats=5,
    )  # fmt: skip


def drifting(seed: int, part: int = 0, *, steps: int = 200) -> ChangingStream:
    """The four quadrants, each gradually replaced by the next over half of its time."""
    generator = _generator(seed, part)
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
        model=_mlp([4, 100, 100, 2], generator), loss=CROSS_ENTROPY, score=accuracy,
        lr=0.05, repeats=5,
    )  # fmt: skip


View = Callable[[Tensor, Tensor], Samples]
"""How an environment transforms images and labels."""


def _images(
    seed: int, part: int, views: Sequence[View], order: Sequence[int], steps: int, outputs: int = 10
) -> ChangingStream:
    """Fashion-MNIST in several environments; no image is in both parts."""
    generator = _generator(seed, part)
    folder = fashion.find()
    x, y = fashion.load(folder)
    half = len(x) // 2
    x, y = x[part * half :][:half], y[part * half :][:half]
    test_x, test_y = fashion.load(folder, "t10k")
    batches: list[Samples] = []
    for environment in order:
        images, labels = views[environment](x, y)
        for _ in range(steps):
            rows = torch.randint(len(images), (20,), generator=generator)
            batches.append((_standardize(images[rows]), labels[rows]))
    tests = []
    for environment in sorted(set(order)):
        images, labels = views[environment](test_x, test_y)
        tests.append((_standardize(images[:2000]), labels[:2000]))
    return ChangingStream(
        batches=batches, tests=tests,
        environments=[environment for environment in order for _ in range(steps)],
        model=_mlp([784, 100, 100, outputs], generator), loss=CROSS_ENTROPY, score=accuracy,
        lr=0.05, repeats=2,
    )  # fmt: skip


def _standardize(images: Tensor) -> Tensor:
    return (images.flatten(1).float() / 255 - 0.286) / 0.353


def permuted(
    seed: int, part: int = 0, *, order: Sequence[int] = (0, 1, 2, 3), steps: int = 200
) -> ChangingStream:
    """Fashion-MNIST with permuted pixels."""
    generator = _generator(seed, part)

    def view(environment: int) -> View:
        pixels = torch.randperm(784, generator=generator) if environment else torch.arange(784)
        return lambda x, y: (x.flatten(1)[:, pixels], y)

    return _images(seed, part, [view(number) for number in range(max(order) + 1)], order, steps)


def recurring(seed: int, part: int = 0, *, steps: int = 200) -> ChangingStream:
    """Two permutations of Fashion-MNIST, alternating: A B A B."""
    return permuted(seed, part, order=(0, 1, 0, 1), steps=steps)


def rotated(seed: int, part: int = 0, *, steps: int = 200) -> ChangingStream:
    """Fashion-MNIST rotated by 0, 90, 180 and 270 degrees."""

    def view(turns: int) -> View:
        return lambda x, y: (torch.rot90(x, turns, (1, 2)), y)

    return _images(seed, part, [view(turns) for turns in range(4)], range(4), steps)


def split(seed: int, part: int = 0, *, steps: int = 200) -> ChangingStream:
    """Two classes of Fashion-MNIST at a time; the label is which one of the pair."""

    def view(pair: int) -> View:
        def select(x: Tensor, y: Tensor) -> Samples:
            in_pair = y // 2 == pair
            return x[in_pair], y[in_pair] % 2

        return select

    order = torch.randperm(5, generator=_generator(seed, part)).tolist()
    return _images(seed, part, [view(pair) for pair in order], range(5), steps, outputs=2)


def waves(seed: int, part: int = 0, *, steps: int = 200) -> ChangingStream:
    """Regression: two sine waves of three inputs, in one region of the input space at a time."""
    generator = _generator(seed, part)
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
        model=_mlp([3, 100, 100, 2], generator),
        loss=lambda outputs, targets: (outputs - targets).square().mean(1), score=explained,
        lr=0.05, repeats=5,
    )  # fmt: skip


STREAMS: dict[str, Callable[..., ChangingStream]] = {
    "two quadrants": quadrants,
    "four quadrants": partial(quadrants, number=4),
    "drifting quadrants": drifting,
    "permuted images": permuted,
    "rotated images": rotated,
    "split images": split,
    "recurring images": recurring,
    "waves": waves,
}
"""Every stream of the study, by name."""
