"""A stream of real texts whose topics come one after the other: Debian's fortunes."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from zlib import crc32

import torch
from torch import Tensor

from taskfree.paper.streams.changing import (
    CROSS_ENTROPY,
    ChangingStream,
    Samples,
    accuracy,
    generator_of,
    mlp,
)

FOLDER = Path("/usr/share/games/fortunes")
TOPICS = (
    "computers", "definitions", "men-women", "people", "politics", "science", "songs-poems", "work",
    "knghtbrd", "zippy",
)  # fmt: skip
"""Those with more than 500 texts that are about one thing, or by one person."""
FEATURES = 1024


def find(folder: Path | None = None) -> Path:
    """The folder that holds the texts."""
    folder = FOLDER if folder is None else folder
    missing = [topic for topic in TOPICS if not (folder / topic).exists()]
    if missing:
        raise FileNotFoundError(
            f"the texts {', '.join(missing)} are not in {folder}: install Debian's packages "
            "fortunes and fortunes-min"
        )
    return folder


def hashed(text: str) -> Tensor:
    """Words and pairs of neighbouring words as hashed counts of norm 1.

    >>> features = hashed("so it goes, so it goes")
    >>> features.shape, int((features > 0).sum())
    (torch.Size([1024]), 6)
    """
    words = "".join(c if c.isalnum() else " " for c in text.lower()).split()
    counts = torch.zeros(FEATURES)
    for term in (*words, *map(" ".join, pairwise(words))):
        counts[crc32(term.encode()) % FEATURES] += 1
    return torch.nn.functional.normalize(counts.log1p(), dim=0)


@cache
def _load(folder: Path) -> list[Tensor]:
    """The features of every text, by topic."""
    found = []
    for topic in TOPICS:
        content = (folder / topic).read_text(encoding="utf-8", errors="replace")
        texts = [text for text in content.split("\n%\n") if text.strip()]
        found.append(torch.stack([hashed(text) for text in texts]))
    return found


def topics(seed: int, part: int = 0, *, steps: int = 80) -> ChangingStream:
    """Short texts of two new topics at a time, and one output for each of all ten.

    A quarter of each topic's texts is for testing; the others are divided over both parts.
    """
    generator = generator_of(seed, part)
    texts = _load(find())
    train, test = list[Samples](), list[Samples]()
    for label, features in enumerate(texts):
        count = len(features) // 4
        order = torch.randperm(len(features), generator=torch.Generator().manual_seed(label))
        rows = order[count:][part::2]
        train.append((features[rows], torch.full((len(rows),), label)))
        test.append((features[order[:count]], torch.full((count,), label)))
    pairs = torch.randperm(len(texts), generator=generator).view(-1, 2).tolist()
    batches: list[Samples] = []
    for pair in pairs:
        x, y = (torch.cat(column) for column in zip(*(train[label] for label in pair), strict=True))
        for _ in range(steps):
            rows = torch.randint(len(x), (20,), generator=generator)
            batches.append((x[rows], y[rows]))
    tests = [
        (torch.cat([test[a][0], test[b][0]]), torch.cat([test[a][1], test[b][1]])) for a, b in pairs
    ]
    return ChangingStream(
        batches=batches, tests=tests,
        environments=[environment for environment in range(len(pairs)) for _ in range(steps)],
        model=mlp([FEATURES, 100, len(texts)], generator), loss=CROSS_ENTROPY, score=accuracy,
        lr=0.5, repeats=2,
    )  # fmt: skip
