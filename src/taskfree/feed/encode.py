"""From rows to tensors in one pass: numbers, categories, missing values, pictures and targets.

Nothing is known of a column but what has come so far: its running mean and deviation, and its
categories in the order in which they appeared. A row is read first, which can fail, and taken in
only when all of it could be read.
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

__all__ = ["Classes", "Numbers", "Pictures", "Running", "Table", "Unreadable", "kind_of"]

MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "?"))
"""How tables say that a value is missing, in small letters."""
OWN, SHARED = 50, 14
"""So many categories of a column have a place of their own; later ones share these by a hash."""
FAR = 8.0
"""Deviations from the mean: what is further away is brought here."""


class Unreadable(ValueError):  # noqa: N818
    """A row that cannot be learned from, and why. Nothing of it was taken in."""


def is_missing(value: Any) -> bool:
    """Whether a value says that there is none.

    >>> is_missing(" NA "), is_missing(None), is_missing(0)
    (True, True, False)
    """
    if value is None:
        return True
    if isinstance(value, str):
        return value.strip().lower() in MISSING
    return isinstance(value, float) and math.isnan(value)


def kind_of(values: Sequence[Any]) -> str:
    """What a column holds: `"number"` if nine of ten values that are there are, or `"category"`.

    >>> kind_of(["1.5", "", "-2e3"]), kind_of(["red", "1"]), kind_of([None, ""])
    ('number', 'category', 'number')
    """
    there = [value for value in values if not is_missing(value)]
    return "number" if sum(map(_is_number, there)) >= 0.9 * len(there) else "category"


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


class Running:
    """The mean and deviation of numbers, column by column, of all that has come."""

    def __init__(self, columns: int) -> None:
        self.count, self.mean, self.squares = torch.zeros(3, columns, dtype=torch.float64)

    def add(self, values: Tensor, missing: Tensor | None) -> None:
        """Take in more rows; where `missing` is true there is no value."""
        if missing is None:
            count = torch.full_like(self.count, len(values))
            mean = values.mean(0)
            squares = (values - mean).square_().sum(0)
        else:
            count = (~missing).sum(0).double()
            mean = torch.where(missing, 0.0, values).sum(0) / count.clamp_min(1)
            squares = torch.where(missing, 0.0, values - mean).square_().sum(0)
        total = self.count + count
        away, share = mean - self.mean, count / total.clamp_min(1)
        self.mean = self.mean + away * share
        self.squares = self.squares + squares + away * away * self.count * share
        self.count = total

    @property
    def deviation(self) -> Tensor:
        """The standard deviation of each column; 1 where it is not known yet, or is 0."""
        variance = self.squares / self.count.clamp_min(1)
        return torch.where(variance > 1e-24, variance, 1.0).sqrt_()

    def scaled(self, values: Tensor) -> Tensor:
        """Values in deviations from the mean; those that are far away are brought nearer."""
        away: Tensor = (values - self.mean) / self.deviation
        return away.clamp_(-FAR, FAR)

    def state_dict(self) -> dict[str, Tensor]:
        """What it knows."""
        return {"count": self.count, "mean": self.mean, "squares": self.squares}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from there."""
        self.count, self.mean, self.squares = (
            state[name].clone() for name in ("count", "mean", "squares")
        )


def _picker(places: list[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """What picks the values at these places out of a row, as fast as Python can."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda row: [row[at] for at in places]


class Table:
    """Rows of numbers and categories as inputs of a network.

    A number is brought to a mean of 0 and a deviation of 1, as known so far; a missing one is 0,
    and if `gaps` names its column, one more input says so. A category is one of 64 inputs: the
    first 50 of a column have their own, later ones share 14 by a hash; a missing one is none.

    Args:
        kinds: by column, in the order of a row's values: `"number"`, `"category"` or `""` for a
            column that is not looked at.
        gaps: the number columns in which values are missing.

    >>> table = Table({"speed": "number", "road": "category"})
    >>> inputs = table.encode([table.read(row) for row in (["10", "wet"], ["20", "dry"])])
    >>> inputs.shape, inputs[:, 0].tolist()
    (torch.Size([2, 65]), [-1.0, 1.0])
    >>> table.read(["fast", "dry"])
    Traceback (most recent call last):
    ...
    taskfree.feed.encode.Unreadable: speed must be a number, is 'fast'
    """

    def __init__(self, kinds: Mapping[str, str], gaps: Sequence[str] = ()) -> None:
        names = list(kinds)
        self.numbers = [name for name in names if kinds[name] == "number"]
        self.categories = [name for name in names if kinds[name] == "category"]
        self._numbers_at = [names.index(name) for name in self.numbers]
        self._pick_numbers = _picker(self._numbers_at)
        self._categories_at = [names.index(name) for name in self.categories]
        self._gaps = [self.numbers.index(name) for name in gaps]
        self.running = Running(len(self.numbers))
        self.places: list[dict[str, int]] = [{} for _ in self.categories]

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
            raise Unreadable(f"{name} is infinite")
        found = [row[at] for at in self._categories_at]
        return numbers, [None if is_missing(value) else str(value) for value in found]

    def _number(self, row: Sequence[Any], number: int) -> float:
        value = row[self._numbers_at[number]]
        try:
            return math.nan if is_missing(value) else float(value)
        except (TypeError, ValueError):
            name = self.numbers[number]
            raise Unreadable(f"{name} must be a number, is {value!r}") from None

    def encode(
        self, rows: Sequence[tuple[list[float], list[str | None]]], learn: bool = True
    ) -> Tensor:
        """Rows that were read as inputs.

        Without `learn` nothing is taken in: no statistics, no new categories.
        """
        numbers = torch.tensor([row[0] for row in rows], dtype=torch.float64)
        missing = numbers.isnan() if math.isnan(numbers.sum().item()) else None
        if learn:
            self.running.add(numbers, missing)
        scaled = self.running.scaled(numbers)
        parts = [scaled if missing is None else torch.where(missing, 0.0, scaled)]
        if self._gaps:
            said = torch.zeros_like(numbers) if missing is None else missing.double()
            parts.append(said[:, self._gaps])
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
        """What a row said, as far as its inputs still tell it."""
        count = len(self.numbers)
        values = inputs[:count].double() * self.running.deviation + self.running.mean
        said = {
            name: f"{value:.6g}" for name, value in zip(self.numbers, values.tolist(), strict=True)
        }
        for at, place in enumerate(self._gaps):
            if inputs[count + at]:
                said[self.numbers[place]] = "missing"
        first, wide = count + len(self._gaps), OWN + SHARED
        for column, name in enumerate(self.categories):
            hot = inputs[first + wide * column :][:wide].nonzero().flatten()
            named = {place: text for text, place in self.places[column].items()}
            said[name] = named.get(int(hot[0]), "one of the rare ones") if len(hot) else "missing"
        return said

    def state_dict(self) -> dict[str, Any]:
        """What it knows."""
        return {"running": self.running.state_dict(), "places": self.places}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.running.load_state_dict(state["running"])
        self.places = [dict(places) for places in state["places"]]


class Pictures:
    """Files of pictures as inputs of a network: of one size, each with mean 0 and deviation 1.

    Args:
        place: which of a row's values is the file's name, seen from `folder`.
        size: pixels in height and width.
    """

    def __init__(self, place: int, size: int) -> None:
        self.place, self.size, self.folder = place, size, Path()

    def read(self, row: Sequence[Any]) -> Tensor:
        """The picture of a row, as bytes."""
        from PIL import Image

        file = self.folder / str(row[self.place])
        try:
            with Image.open(file) as picture:
                sized = picture.convert("RGB").resize((self.size, self.size))
        except (OSError, ValueError, SyntaxError) as error:
            raise Unreadable(f"the picture {file} cannot be read: {error}") from None
        content = torch.frombuffer(bytearray(sized.tobytes()), dtype=torch.uint8)
        return content.view(self.size, self.size, 3).permute(2, 0, 1)

    def encode(self, rows: Sequence[Tensor], learn: bool = True) -> Tensor:
        """Pictures that were read as inputs."""
        del learn  # there is nothing to take in
        values = torch.stack(list(rows)).float()
        spread, mean = torch.std_mean(values, dim=(1, 2, 3), keepdim=True)
        return (values - mean) / spread.clamp_min(1)

    def state_dict(self) -> dict[str, Any]:
        """It remembers nothing."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """It remembers nothing."""


# Targets


class Classes:
    """Labels as numbers, in the order in which they appeared; new ones may come at any time.

    >>> classes = Classes()
    >>> classes.encode([classes.read(label) for label in ("up", "down", "up")]), classes.names
    (tensor([0, 1, 0]), ['up', 'down'])
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}

    def read(self, value: Any) -> str:
        """A label's name: 1 and 1.0 are the same."""
        if isinstance(value, str) and value in self._numbers:
            return value  # most are, and this is asked of every row
        if is_missing(value):
            raise Unreadable("the target is missing")
        whole = isinstance(value, float) and value.is_integer()
        return str(int(value) if whole else value)

    def encode(self, names: Sequence[str], learn: bool = True) -> Tensor:
        """The labels' numbers; without `learn`, -1 for one that is not known."""
        for name in names if learn else ():
            if name not in self._numbers:
                self._numbers[name] = len(self.names)
                self.names.append(name)
        return torch.tensor([self._numbers.get(name, -1) for name in names])

    def state_dict(self) -> dict[str, Any]:
        """The names."""
        return {"names": self.names}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with these names."""
        self.names = list(state["names"])
        self._numbers = {name: number for number, name in enumerate(self.names)}


class Numbers:
    """Targets that are numbers: a network learns them with a mean of 0 and a deviation of 1.

    They are kept as they are and scaled when they are learned: the scale of the day on which a
    sample was kept is not that of the day on which it is learned again.

    >>> numbers = Numbers()
    >>> values = numbers.encode([numbers.read("1"), numbers.read("3")])
    >>> numbers.scaled(values), numbers.unscaled(numbers.scaled(values))
    (tensor([-1.,  1.]), tensor([1., 3.], dtype=torch.float64))
    """

    def __init__(self) -> None:
        self.running = Running(1)

    def read(self, value: Any) -> float:
        """A target as a number."""
        if is_missing(value):
            raise Unreadable("the target is missing")
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise Unreadable(f"the target must be a number, is {value!r}") from None
        if math.isinf(number):
            raise Unreadable("the target is infinite")
        return number

    def encode(self, values: Sequence[float], learn: bool = True) -> Tensor:
        """As they are kept."""
        own = torch.tensor(values, dtype=torch.float64)
        if learn:
            self.running.add(own[:, None], None)
        return own

    def scaled(self, values: Tensor) -> Tensor:
        """As the network learns them."""
        return self.running.scaled(values).float()

    def unscaled(self, outputs: Tensor) -> Tensor:
        """What the network means, in their own units."""
        found: Tensor = outputs.double() * self.running.deviation + self.running.mean
        return found

    def state_dict(self) -> dict[str, Any]:
        """The mean and deviation."""
        return {"running": self.running.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.running.load_state_dict(state["running"])
