"""Rows as inputs of a network: numbers, categories, missing values and images.

A column is known only by what has come so far. A row is read first, which can fail, and encoded
only if all of it could be read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any
from zlib import crc32

import torch
from torch import Tensor

from taskfree.tabular.scaler import RunningScaler
from taskfree.tabular.values import RowError, is_missing

__all__ = ["ImageEncoder", "TableEncoder"]

MOST_KEYS = 4
"""Experts go by this many columns of categories, the first ones."""
OWN, SHARED = 50, 14
"""The first 50 categories of a column have an input each; later ones share 14 by a hash."""


def _picker(places: list[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """A fast function that picks the values at these places out of a row."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda row: [row[at] for at in places]


class TableEncoder:
    """Rows of numbers and categories as inputs of a network.

    Numbers are standardized by the statistics so far. A missing number is 0, and if its column is
    among `gaps`, one more input marks it. A category is one-hot over 64 inputs; a missing one has
    none set.

    Args:
        kinds: by column, in the order of a row's values: `"number"`, `"category"`, or `""` to
            ignore it.
        gaps: the number columns with missing values.

    >>> table = TableEncoder({"speed": "number", "road": "category"})
    >>> inputs = table.encode([table.read(row) for row in (["10", "wet"], ["20", "dry"])])
    >>> inputs.shape, inputs[:, 0].tolist()
    (torch.Size([2, 65]), [-1.0, 1.0])
    >>> table.read(["fast", "dry"])
    Traceback (most recent call last):
    ...
    taskfree.tabular.values.RowError: speed must be a number, got 'fast'
    """

    def __init__(self, kinds: Mapping[str, str], gaps: Sequence[str] = ()) -> None:
        names = list(kinds)
        self.numbers = [name for name in names if kinds[name] == "number"]
        self.categories = [name for name in names if kinds[name] == "category"]
        self._number_places = [names.index(name) for name in self.numbers]
        self._pick_numbers = _picker(self._number_places)
        self._category_places = [names.index(name) for name in self.categories]
        self._gaps = [self.numbers.index(name) for name in gaps]
        self.scaler = RunningScaler(len(self.numbers))
        self.places: list[dict[str, int]] = [{} for _ in self.categories]

    @property
    def keys(self) -> list[str]:
        """The columns of categories that experts go by."""
        return self.categories[:MOST_KEYS]

    @property
    def width(self) -> int:
        """How many inputs a row becomes."""
        return len(self.numbers) + len(self._gaps) + (OWN + SHARED) * len(self.categories)

    def read(self, row: Sequence[Any]) -> tuple[list[float], list[str | None]]:
        """A row's numbers, nan if missing, and its categories, None if missing."""
        try:
            numbers = list(map(float, self._pick_numbers(row)))
        except (TypeError, ValueError):
            numbers = [self._number(row, at) for at in range(len(self.numbers))]
        if not math.isfinite(sum(numbers)) and any(map(math.isinf, numbers)):
            name = self.numbers[next(at for at, n in enumerate(numbers) if math.isinf(n))]
            raise RowError(f"{name} is infinite")
        found = [row[at] for at in self._category_places]
        return numbers, [None if is_missing(value) else str(value) for value in found]

    def _number(self, row: Sequence[Any], number: int) -> float:
        value = row[self._number_places[number]]
        try:
            return math.nan if is_missing(value) else float(value)
        except (TypeError, ValueError):
            name = self.numbers[number]
            raise RowError(f"{name} must be a number, got {value!r}") from None

    def encode(
        self, rows: Sequence[tuple[list[float], list[str | None]]], learn: bool = True
    ) -> Tensor:
        """Rows that were read, as inputs. With `learn=False` statistics and categories stay."""
        numbers = torch.tensor([row[0] for row in rows], dtype=torch.float64)
        missing = numbers.isnan() if math.isnan(numbers.sum().item()) else None
        if learn:
            self.scaler.add(numbers, missing)
        scaled = self.scaler.standardize(numbers)
        parts = [scaled if missing is None else torch.where(missing, 0.0, scaled)]
        if self._gaps:
            marks = torch.zeros_like(numbers) if missing is None else missing.double()
            parts.append(marks[:, self._gaps])
        parts += [
            self._one_hot(column, [row[1][column] for row in rows], learn)
            for column in range(len(self.categories))
        ]
        return (parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)).float()

    def _one_hot(self, column: int, values: list[str | None], learn: bool) -> Tensor:
        places = self.places[column]
        hot = torch.zeros(len(values), OWN + SHARED, dtype=torch.float64)
        for at, text in enumerate(values):
            if text is None:
                continue
            place = places.get(text)
            if place is None:
                if learn and len(places) < OWN:
                    places[text] = place = len(places)
                else:
                    place = OWN + crc32(text.encode()) % SHARED
            hot[at, place] = 1
        return hot

    def decode(self, inputs: Tensor) -> dict[str, str]:
        """A row's values by column, as far as its inputs tell them."""
        count = len(self.numbers)
        values = inputs[:count].double() * self.scaler.std + self.scaler.mean
        found = {
            name: f"{value:.6g}" for name, value in zip(self.numbers, values.tolist(), strict=True)
        }
        for at, place in enumerate(self._gaps):
            if inputs[count + at]:
                found[self.numbers[place]] = "missing"
        first, wide = count + len(self._gaps), OWN + SHARED
        for column, name in enumerate(self.categories):
            hot = inputs[first + wide * column :][:wide].nonzero().flatten()
            named = {place: text for text, place in self.places[column].items()}
            found[name] = named.get(int(hot[0]), "a rare one") if len(hot) else "missing"
        return found

    def state_dict(self) -> dict[str, Any]:
        """Statistics and categories so far."""
        return {"running": self.scaler.state_dict(), "places": self.places}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.scaler.load_state_dict(state["running"])
        self.places = [dict(places) for places in state["places"]]


class ImageEncoder:
    """Image files as inputs of a network: of one size, each standardized by itself.

    Args:
        place: which of a row's values is the file name, relative to `folder`.
        size: height and width in pixels.
    """

    def __init__(self, place: int, size: int) -> None:
        self.place, self.size, self.folder = place, size, Path()

    def read(self, row: Sequence[Any]) -> Tensor:
        """The image of a row, as bytes."""
        from PIL import Image

        file = self.folder / str(row[self.place])
        try:
            with Image.open(file) as image:
                resized = image.convert("RGB").resize((self.size, self.size))
        except (OSError, ValueError, SyntaxError) as error:
            raise RowError(f"the image {file} cannot be read: {error}") from None
        content = torch.frombuffer(bytearray(resized.tobytes()), dtype=torch.uint8)
        return content.view(self.size, self.size, 3).permute(2, 0, 1)

    def encode(self, rows: Sequence[Tensor], learn: bool = True) -> Tensor:
        """Images that were read, as inputs."""
        del learn  # there is nothing to learn
        values = torch.stack(list(rows)).float()
        spread, mean = torch.std_mean(values, dim=(1, 2, 3), keepdim=True)
        return (values - mean) / spread.clamp_min(1)

    def state_dict(self) -> dict[str, Any]:
        """It has no state."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """It has no state."""
