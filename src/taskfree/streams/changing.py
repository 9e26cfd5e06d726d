"""Streams that change in every way: suddenly, slowly, again and again, in inputs or in both.

Each is a function of a seed and a part of the data. Settings are chosen on `part=1` and judged on
`part=0`: other points, other pictures, other permutations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from taskfree.streams import ball, fashion

Samples = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Stream:
    """A stream of batches from several environments, with a model to learn it and ways to judge.

    The learner is told none of `environments` and `changes`.
    """

    batches: list[Samples]
    tests: list[Samples]
    """Test samples of every environment."""
    environments: list[int]
    """Which environment each batch is of, mostly."""
    model: nn.Module
    loss: Callable[[Any, Any], Tensor]
    score: Callable[[Tensor, Tensor], float]
    """How good outputs are: 1 is perfect, 0 is worthless."""
    lr: float
    repeats: int

    @property
    def changes(self) -> list[int]:
        """The steps at which another environment begins, counted from 0."""
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
    """A network of fully connected layers, initialised as torch does."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**31, (1,), generator=generator)))
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(sizes):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        return nn.Sequential(*layers[:-1])


CROSS_ENTROPY = nn.CrossEntropyLoss(reduction="none")


def quadrants(seed: int, part: int = 0, *, number: int = 2, steps: int = 200) -> Stream:
    """The paper's synthetic stream: quadrants of the ball, one after the other."""
    chance = _generator(seed, part)
    order = [1 + index % 4 for index in range(number)]
    batches = [b for q in order for b in ball.batches(*ball.quadrant(q, 20 * steps, chance), 20)]
    return Stream(
        batches=batches,
        tests=[ball.quadrant(q, 1000, chance) for q in order],
        environments=[index for index in range(number) for _ in range(steps)],
        model=_mlp([4, 100, 100, 2], chance), loss=CROSS_ENTROPY, score=accuracy,
        lr=0.05, repeats=5,
    )  # fmt: skip


def drifting(seed: int, part: int = 0, *, steps: int = 200) -> Stream:
    """The four quadrants, each giving way to the next over half of its time."""
    chance = _generator(seed, part)
    pools = [ball.quadrant(q, 20 * steps * 2, chance) for q in (1, 2, 3, 4)]
    taken = [0, 0, 0, 0]
    batches, environments = [], []
    for step in range(4 * steps):
        position = step / steps - 0.5
        # whole quadrants for half of the time, and a mixture on the way to the next
        mixed = min(max((position % 1 - 0.25) / 0.5, 0), 1)
        shares = torch.zeros(4)
        now = min(max(int(position // 1), 0), 3)
        shares[now] += 1 - mixed
        shares[min(now + 1, 3)] += mixed
        if position < 0:
            shares = torch.tensor([1.0, 0, 0, 0])
        which = torch.multinomial(shares, 20, replacement=True, generator=chance).tolist()
        rows = []
        for q in which:
            rows.append((pools[q][0][taken[q]], pools[q][1][taken[q]]))
            taken[q] += 1
        x, y = zip(*rows, strict=True)
        batches.append((torch.stack(x), torch.stack(y)))
        environments.append(int(shares.argmax()))
    return Stream(
        batches=batches, tests=[ball.quadrant(q, 1000, chance) for q in (1, 2, 3, 4)],
        environments=environments,
        model=_mlp([4, 100, 100, 2], chance), loss=CROSS_ENTROPY, score=accuracy,
        lr=0.05, repeats=5,
    )  # fmt: skip


View = Callable[[Tensor, Tensor], Samples]
"""What an environment makes of pictures and labels."""


def _pictures(
    seed: int, part: int, views: Sequence[View], order: Sequence[int], steps: int, outputs: int = 10
) -> Stream:
    """A stream of Fashion-MNIST seen in several ways; each part has pictures of its own."""
    chance = _generator(seed, part)
    folder = fashion.find()
    x, y = fashion.load(folder)
    half = len(x) // 2
    x, y = x[part * half :][:half], y[part * half :][:half]
    test_x, test_y = fashion.load(folder, "t10k")
    batches: list[Samples] = []
    for environment in order:
        seen, labels = views[environment](x, y)
        for _ in range(steps):
            rows = torch.randint(len(seen), (20,), generator=chance)
            batches.append((_scaled(seen[rows]), labels[rows]))
    tests = []
    for environment in sorted(set(order)):
        seen, labels = views[environment](test_x, test_y)
        tests.append((_scaled(seen[:2000]), labels[:2000]))
    return Stream(
        batches=batches, tests=tests,
        environments=[environment for environment in order for _ in range(steps)],
        model=_mlp([784, 100, 100, outputs], chance), loss=CROSS_ENTROPY, score=accuracy,
        lr=0.05, repeats=2,
    )  # fmt: skip


def _scaled(pictures: Tensor) -> Tensor:
    return (pictures.flatten(1).float() / 255 - 0.286) / 0.353


def permuted(
    seed: int, part: int = 0, *, order: Sequence[int] = (0, 1, 2, 3), steps: int = 200
) -> Stream:
    """Fashion-MNIST with its pixels in other orders."""
    chance = _generator(seed, part)

    def view(environment: int) -> View:
        places = torch.randperm(784, generator=chance) if environment else torch.arange(784)
        return lambda x, y: (x.flatten(1)[:, places], y)

    return _pictures(seed, part, [view(number) for number in range(max(order) + 1)], order, steps)


def recurring(seed: int, part: int = 0, *, steps: int = 200) -> Stream:
    """Two orders of Fashion-MNIST's pixels in turns: A B A B."""
    return permuted(seed, part, order=(0, 1, 0, 1), steps=steps)


def rotated(seed: int, part: int = 0, *, steps: int = 200) -> Stream:
    """Fashion-MNIST turned by a quarter, and again, and again."""

    def view(turns: int) -> View:
        def turned(x: Tensor, y: Tensor) -> Samples:
            return torch.rot90(x, turns, (1, 2)), y

        return turned

    return _pictures(seed, part, [view(turns) for turns in range(4)], range(4), steps)


def split(seed: int, part: int = 0, *, steps: int = 200) -> Stream:
    """Two kinds of clothes at a time: is it the first or the second of its pair?"""

    def view(pair: int) -> View:
        def only(x: Tensor, y: Tensor) -> Samples:
            kept = y // 2 == pair
            return x[kept], y[kept] % 2

        return only

    order = torch.randperm(5, generator=_generator(seed, part)).tolist()
    return _pictures(seed, part, [view(pair) for pair in order], range(5), steps, outputs=2)


def waves(seed: int, part: int = 0, *, steps: int = 200) -> Stream:
    """Regression: two sine waves of three inputs, seen through one part of the space at a time."""
    chance = _generator(seed, part)
    directions = torch.randn(3, 2, generator=chance)
    centres = torch.tensor([[1.5, 0, 0], [-1.5, 0, 0], [0, 1.5, 0], [0, -1.5, 0]])

    def draw(environment: int, samples: int) -> Samples:
        x = centres[environment] + 0.6 * torch.randn(samples, 3, generator=chance)
        y = torch.sin(x @ directions) + 0.1 * torch.randn(samples, 2, generator=chance)
        return x, y

    return Stream(
        batches=[draw(environment, 20) for environment in range(4) for _ in range(steps)],
        tests=[draw(environment, 1000) for environment in range(4)],
        environments=[environment for environment in range(4) for _ in range(steps)],
        model=_mlp([3, 100, 100, 2], chance),
        loss=lambda outputs, targets: (outputs - targets).square().mean(1), score=explained,
        lr=0.05, repeats=5,
    )  # fmt: skip


STREAMS: dict[str, Callable[..., Stream]] = {
    "two quadrants": quadrants,
    "four quadrants": partial(quadrants, number=4),
    "drifting quadrants": drifting,
    "permuted pictures": permuted,
    "rotated pictures": rotated,
    "split pictures": split,
    "recurring pictures": recurring,
    "waves": waves,
}
"""Every stream of the study, by name."""
