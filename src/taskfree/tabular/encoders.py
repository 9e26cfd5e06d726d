"""Rows as inputs of a network: tables of any columns, and images.

A column is known only by what has come so far. A row is read first, which can fail, and encoded
only if all of it could be read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from taskfree.tabular.columns import ABSENT, Column, Inputs, NumberColumn, make
from taskfree.tabular.columns.inputs import LARGEST, Written
from taskfree.tabular.values import RowError, is_missing, kind_of

__all__ = ["Cells", "ImageEncoder", "TableEncoder"]

MOST_COLUMNS = 2000
"""Columns that come later are ignored once there are so many."""


class Cells(NamedTuple):
    """The values of a row, as they were read."""

    numbers: list[Any]
    """Of the number columns: a float, nan if missing, or a code."""
    others: list[Any]
    """Of the other columns."""
    late: Mapping[str, Any] = {}
    """By name, values of columns that came later; as they came until the column is known."""


def _picker(places: list[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """A fast function that picks the values at these places out of a row."""
    return itemgetter(*places) if len(places) > 1 else partial(_pick, places)


def _pick(places: list[int], row: Sequence[Any]) -> Sequence[Any]:
    return [row[at] for at in places]


class TableEncoder:
    """Rows of a table as inputs of a network.

    What the inputs hold is not standardized yet: `prepare` does that when the network sees them.

    Args:
        kinds: by column, in the order of a row's values: `"number"`, `"category"`, `"time"`,
            `"text"`, or `""` to ignore it. Columns that come later are added.
        forms: by column, how its numbers or times are written.
        keys: what experts go by: names of columns, `"hour of"` a column of times and the like.
        late: the names of columns that came later; the values of a row do not have them.

    >>> table = TableEncoder({"speed": "number", "road": "category"})
    >>> inputs = table.encode([table.read(row) for row in (["10", "wet"], ["20", "dry"])])
    >>> table.prepare(inputs)
    tensor([[-1.,  1.,  0.],
            [ 1.,  0.,  1.]])
    >>> later = table.read(["30", "dry"], late={"wind": 3.5})
    >>> table.encode([later]).shape, table.kinds["wind"]
    (torch.Size([1, 4]), 'number')
    """

    def __init__(
        self,
        kinds: MutableMapping[str, str],
        forms: MutableMapping[str, str] | None = None,
        keys: Sequence[str] = (),
        late: Sequence[str] = (),
    ) -> None:
        self.kinds = kinds
        self.forms: MutableMapping[str, str] = {} if forms is None else forms
        self.keys = list(keys)
        self.inputs = Inputs()
        self.numbers: list[NumberColumn] = []
        self.others: list[Column] = []
        self._late: dict[str, Column] = {}
        for name, kind in kinds.items():
            if kind:
                column = make(kind, name, self.forms.get(name, ""), self.inputs)
                if name in late:
                    self._late[name] = column
                elif isinstance(column, NumberColumn):
                    self.numbers.append(column)
                else:
                    self.others.append(column)
        names = [name for name in kinds if name not in late]
        self._number_places = [names.index(column.name) for column in self.numbers]
        self._pick_numbers = _picker(self._number_places)
        self._other_places = [names.index(column.name) for column in self.others]
        self._plain = not any(column.form for column in self.numbers)
        if kinds:
            self.inputs.leave_room()

    @property
    def width(self) -> int:
        """How many inputs a row becomes; it may grow."""
        return self.inputs.width

    @property
    def features(self) -> int:
        """The same: how many numbers a row is to experts."""
        return self.inputs.width

    @property
    def columns(self) -> list[Column]:
        """All columns that are inputs, those that came later last."""
        return [*self.numbers, *self.others, *self._late.values()]

    def read(self, row: Sequence[Any], late: Mapping[str, Any] | None = None) -> Cells:
        """The values of a row, and of columns that were not there before."""
        try:
            numbers: list[Any] = list(map(float, self._pick_numbers(row)))
            fast = self._plain and math.isfinite(sum(numbers))
        except (TypeError, ValueError, OverflowError):
            fast = False
        if not fast:
            both = zip(self.numbers, self._number_places, strict=True)
            found = (column.read(row[at]) for column, at in both)
            numbers = [math.nan if value is None else value for value in found]
        both_others = zip(self.others, self._other_places, strict=True)
        others = [column.read(row[at]) for column, at in both_others]
        if not late:
            return Cells(numbers, others)
        known = self._late
        read = {name: known[name].read(v) if name in known else v for name, v in late.items()}
        return Cells(numbers, others, read)

    def encode(self, rows: Sequence[Cells], learn: bool = True) -> Tensor:
        """Rows that were read, as inputs. With `learn=False` statistics and columns stay."""
        joined = self._join(rows) if learn else ()
        written = Written(len(rows), self.width, len(self.inputs.scaled))
        if self.numbers:
            self._write_numbers([row.numbers for row in rows], written, learn)
        for at, column in enumerate(self.others):
            column.write([row.others[at] for row in rows], written, learn)
        for name, column in self._late.items():
            values = [row.late.get(name) for row in rows]
            if name in joined:  # they were not read yet
                values = [_read_late(column, value) for value in values]
            column.write(values, written, learn)
        return self.inputs.finish(written, learn)

    def _write_numbers(self, rows: list[list[Any]], written: Written, learn: bool) -> None:
        try:
            values = torch.tensor(rows, dtype=torch.float64)
        except (TypeError, ValueError):  # there are codes
            plain = [[v if isinstance(v, float) else math.nan for v in row] for row in rows]
            values = torch.tensor(plain, dtype=torch.float64)
        numbers = [column.number for column in self.numbers]
        written.numbers[:, numbers] = values.clamp_(-LARGEST, LARGEST)
        if math.isnan(values.sum().item()):
            for at in values.isnan().any(0).nonzero().flatten().tolist():
                own = [row[at] for row in rows]
                known = [None if v != v else v for v in own]  # nan is not itself
                self.numbers[at].write(known, written, learn)

    def _join(self, rows: Sequence[Cells]) -> set[str]:
        """Take columns that were not there before, at their first value; return their names."""
        joined = set()
        for row in rows:
            for name, value in row.late.items():
                new = name not in self.kinds and len(self.kinds) < MOST_COLUMNS
                if new and not is_missing(value):
                    kind, form = kind_of([value], name)
                    self.kinds[name], self.forms[name] = kind, form
                    self._late[name] = make(kind, name, form, self.inputs)
                    joined.add(name)
        return joined

    def prepare(self, inputs: Tensor) -> Tensor:
        """Inputs as the network sees them: standardized by the statistics of now."""
        return self.inputs.prepare(inputs)

    def keys_of(self, rows: Sequence[Cells]) -> list[Sequence[str | None]]:
        """By key, what each row has in common with others."""
        found: dict[str, Sequence[str | None]] = {}
        for at, number in enumerate(self.numbers):
            if number.name in self.keys:
                values = [row.numbers[at] for row in rows]
                found |= number.keys([None if v != v else v for v in values])
        for at, column in enumerate(self.others):
            if any(key.endswith(column.name) for key in self.keys):
                found |= column.keys([row.others[at] for row in rows])
        return [found[key] for key in self.keys]

    def decode(self, inputs: Tensor) -> dict[str, str]:
        """A row's values by column, as far as its inputs tell them."""
        present = {
            at: value for at, value in enumerate(inputs.tolist()) if value not in (ABSENT, 0.0)
        }
        present |= {at: inputs[at].item() for at in self.inputs.scaled if inputs[at] != ABSENT}
        return {column.name: column.text(present) for column in self.columns}

    def describe(self) -> list[tuple[str, float, float]]:
        """Of each input, what it is, what is subtracted, and by what it is divided then."""
        names = {at: name for column in self.columns for at, name in column.names().items()}
        shifts, scales = dict.fromkeys(names, 0.0), dict.fromkeys(names, 1.0)
        scaler = self.inputs.scaler
        both = zip(self.inputs.scaled, scaler.mean.tolist(), scaler.std.tolist(), strict=True)
        for at, mean, std in both:
            shifts[at], scales[at] = mean, std
        return [
            (names.get(at, ""), shifts.get(at, 0.0), scales.get(at, 1.0))
            for at in range(self.width)
        ]

    def state_dict(self) -> dict[str, Any]:
        """Statistics and columns so far."""
        columns = {column.name: column.state_dict() for column in self.columns}
        return {"inputs": self.inputs.state_dict(), "columns": columns}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        for column in self.columns:
            column.load_state_dict(state["columns"][column.name])
        self.inputs.load_state_dict(state["inputs"])


def _read_late(column: Column, value: Any) -> Any:
    """A value of a column that came later; one that cannot be read is missing."""
    try:
        return None if is_missing(value) else column.read(value)
    except RowError:
        return None


class ImageEncoder:
    """Image files as inputs of a network: of one size, each standardized by itself.

    Args:
        place: which of a row's values is the file name, relative to `folder`.
        size: height and width in pixels.
    """

    keys: Sequence[str] = ()
    width = 3
    """Channels."""

    def __init__(self, place: int, size: int) -> None:
        self.place, self.size, self.folder = place, size, Path()
        self.features = self.width * size**2

    def read(self, row: Sequence[Any], late: Mapping[str, Any] | None = None) -> Tensor:
        """The image of a row, as bytes."""
        del late  # other columns are no inputs
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
        """Images that were read, as inputs: bytes, which is how they are kept."""
        del learn  # there is nothing to learn
        return torch.stack(list(rows))

    def prepare(self, inputs: Tensor) -> Tensor:
        """Images as the network sees them."""
        values = inputs.float()
        spread, mean = torch.std_mean(values, dim=(1, 2, 3), keepdim=True)
        standardized: Tensor = (values - mean) / spread.clamp_min(1)
        return standardized

    def keys_of(self, rows: Sequence[Tensor]) -> list[Sequence[str | None]]:
        """Images have none."""
        del rows
        return []

    def describe(self) -> list[tuple[str, float, float]]:
        """Of each channel, what it is; images are standardized one by one."""
        return [(name, 0.0, 1.0) for name in ("red", "green", "blue")]

    def state_dict(self) -> dict[str, Any]:
        """It has no state."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """It has no state."""
