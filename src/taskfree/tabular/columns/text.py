"""Columns of free text: words, pairs of words and parts of words, by a hash."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any
from zlib import crc32

import torch

from taskfree.tabular.columns.inputs import Inputs, Written
from taskfree.tabular.values import is_missing, text_of

SIZE = 256
"""Inputs of a column of text."""
LENGTH = 3
"""Letters of a part of a word."""
MOST = 2000
"""So many characters are read."""
WORD = re.compile(r"\w+")


class TextColumn:
    """Free text, as the words and parts of words in it.

    Args:
        name: of the column.
        inputs: where it writes.

    >>> inputs = Inputs()
    >>> title = TextColumn("title", inputs)
    >>> written = Written(2, SIZE, 0)
    >>> title.write(["A long day", "A long day"], written, learn=True)
    >>> rows = inputs.prepare(inputs.finish(written, learn=True))
    >>> torch.equal(rows[0], rows[1]), int((rows[0] > 0).sum()) > 5
    (True, True)
    """

    kind = "text"

    def __init__(self, name: str, inputs: Inputs) -> None:
        self.name, self._inputs = name, inputs
        self.first = inputs.take(SIZE)

    def read(self, value: Any) -> str | None:
        """The text."""
        return None if is_missing(value) else text_of(value)[:MOST]

    def write(self, values: Sequence[str | None], to: Written, learn: bool) -> None:
        """How often each part comes, with rows of length 2."""
        del learn
        to.fit(self._inputs)
        for row, value in enumerate(values):
            if value is None:
                continue
            places = torch.tensor([crc32(part.encode()) % SIZE for part in parts_of(value)])
            counts = torch.bincount(places, minlength=SIZE).double() if len(places) else None
            if counts is not None:
                to.values[row, self.first : self.first + SIZE] = 2 * counts / counts.norm()

    def keys(self, values: Sequence[str | None]) -> Mapping[str, Sequence[str | None]]:
        """None: texts differ."""
        del values
        return {}

    def names(self) -> Mapping[int, str]:
        """Which hash of its parts."""
        return {self.first + at: f"{self.name} hash {at}" for at in range(SIZE)}

    def text(self, inputs: Mapping[int, float]) -> str:
        """That there is one: a hash does not tell which."""
        there = any(self.first <= place < self.first + SIZE for place in inputs)
        return "a text" if there else "missing"

    def state_dict(self) -> dict[str, Any]:
        """Its inputs."""
        return {"first": self.first}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.first = state["first"]


def parts_of(text: str) -> Iterator[str]:
    """Words, pairs of words, and three letters at a time.

    >>> list(parts_of("Big day"))
    ['big', ' bi', 'big', 'ig ', 'day', ' da', 'day', 'ay ', 'big day']
    """
    words = WORD.findall(text.lower())
    for word in words:
        yield word
        padded = f" {word} "
        yield from (padded[at : at + LENGTH] for at in range(len(padded) - LENGTH + 1))
    yield from (" ".join(pair) for pair in pairwise(words))
