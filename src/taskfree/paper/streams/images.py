"""Streams of images: Fashion-MNIST in environments that change inputs, labels or both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from taskfree.paper.streams import fashion
from taskfree.paper.streams.changing import (
    CROSS_ENTROPY,
    ChangingStream,
    Samples,
    accuracy,
    balanced_accuracy,
    generator_of,
    mlp,
)

View = Callable[[Tensor, Tensor], Samples]
"""How an environment transforms images and labels."""


def _images(
    seed: int,
    part: int,
    views: Sequence[View],
    order: Sequence[int],
    steps: int,
    outputs: int = 10,
    select: View = lambda x, y: (x, y),
) -> ChangingStream:
    """Fashion-MNIST in several environments; no image is in both parts.

    `select` chooses among the training images alone.
    """
    generator = generator_of(seed, part)
    folder = fashion.find()
    x, y = fashion.load(folder)
    half = len(x) // 2
    x, y = select(x[part * half :][:half], y[part * half :][:half])
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
        model=mlp([784, 100, 100, outputs], generator), loss=CROSS_ENTROPY, score=accuracy,
        lr=0.05, repeats=2,
    )  # fmt: skip


def _standardize(images: Tensor) -> Tensor:
    return (images.flatten(1).float() / 255 - 0.286) / 0.353


def permuted(
    seed: int, part: int = 0, *, order: Sequence[int] = (0, 1, 2, 3), steps: int = 200
) -> ChangingStream:
    """Fashion-MNIST with permuted pixels."""
    generator = generator_of(seed, part)

    def view(environment: int) -> View:
        pixels = torch.randperm(784, generator=generator) if environment else torch.arange(784)
        return lambda x, y: (x.flatten(1)[:, pixels], y)

    return _images(seed, part, [view(number) for number in range(max(order) + 1)], order, steps)


def recurring(seed: int, part: int = 0, *, steps: int = 200) -> ChangingStream:
    """Two permutations of Fashion-MNIST, alternating: A B A B."""
    return permuted(seed, part, order=(0, 1, 0, 1), steps=steps)


def rotated(seed: int, part: int = 0, *, steps: int = 200) -> ChangingStream:
    """Fashion-MNIST rotated by 0, 90, 180 and 270 degrees."""
    return _images(seed, part, [_turned(turns) for turns in range(4)], range(4), steps)


def _turned(turns: int) -> View:
    return lambda x, y: (torch.rot90(x, turns, (1, 2)), y)


def split(seed: int, part: int = 0, *, steps: int = 200) -> ChangingStream:
    """Two classes of Fashion-MNIST at a time; the label is which one of the pair."""

    def view(pair: int) -> View:
        def select(x: Tensor, y: Tensor) -> Samples:
            in_pair = y // 2 == pair
            return x[in_pair], y[in_pair] % 2

        return select

    order = torch.randperm(5, generator=generator_of(seed, part)).tolist()
    return _images(seed, part, [view(pair) for pair in order], range(5), steps, outputs=2)


def class_incremental(seed: int, part: int = 0, *, steps: int = 200) -> ChangingStream:
    """Two new classes of Fashion-MNIST at a time, and one output for each of all ten."""
    order = torch.randperm(10, generator=generator_of(seed, part))

    def view(pair: int) -> View:
        def select(x: Tensor, y: Tensor) -> Samples:
            in_pair = torch.isin(y, order[2 * pair : 2 * pair + 2])
            return x[in_pair], y[in_pair]

        return select

    return _images(seed, part, [view(pair) for pair in range(5)], range(5), steps)


def wrong_labels(
    seed: int, part: int = 0, *, fraction: float = 0.1, steps: int = 200
) -> ChangingStream:
    """Permuted images of which a fraction has a wrong label, drawn at random; tests have none."""
    stream = permuted(seed, part, steps=steps)
    generator = generator_of(seed + 1000, part)

    def mislabel(y: Tensor) -> Tensor:
        other = (y + torch.randint(1, 10, y.shape, generator=generator)) % 10
        return torch.where(torch.rand(len(y), generator=generator) < fraction, other, y)

    return replace(stream, batches=[(x, mislabel(y)) for x, y in stream.batches])


def imbalanced(seed: int, part: int = 0, *, steps: int = 200) -> ChangingStream:
    """Rotated images in which one class is one in fifty; scored by balanced accuracy."""
    rare = int(torch.randint(10, (1,), generator=generator_of(seed + 1000, part)))

    def select(x: Tensor, y: Tensor) -> Samples:
        few = (y == rare).nonzero().flatten()
        kept = torch.ones(len(y), dtype=torch.bool)
        kept[few[(len(y) - len(few)) // 49 :]] = False
        return x[kept], y[kept]

    stream = _images(
        seed, part, [_turned(turns) for turns in range(4)], range(4), steps, 10, select
    )
    return replace(stream, score=balanced_accuracy)


def blurry(seed: int, part: int = 0, *, steps: int = 200) -> ChangingStream:
    """Rotated images with blurry boundaries: a tenth of every batch is from other environments."""
    stream = rotated(seed, part, steps=steps)
    generator = generator_of(seed + 1000, part)
    x, y = (torch.stack(column) for column in zip(*stream.batches, strict=True))
    mixed_x, mixed_y = x.clone(), y.clone()
    environments, count = torch.tensor(stream.environments), x.shape[1] // 10
    for step, environment in enumerate(stream.environments):
        others = (environments != environment).nonzero().flatten()
        for row in range(count):
            other = others[torch.randint(len(others), (1,), generator=generator)]
            mixed_x[step, row], mixed_y[step, row] = x[other, row], y[other, row]
    return replace(stream, batches=list(zip(mixed_x, mixed_y, strict=True)))


def twenty(seed: int, part: int = 0, *, steps: int = 100) -> ChangingStream:
    """A long stream: twenty permutations of Fashion-MNIST."""
    return permuted(seed, part, order=range(20), steps=steps)
