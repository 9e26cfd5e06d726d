"""The schema of a stream: what its columns and its target are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any, cast

from taskfree._core import validation
from taskfree.tabular.columns import Inputs, TimeColumn
from taskfree.tabular.model import Task
from taskfree.tabular.options import Options
from taskfree.tabular.sources import Row, Source
from taskfree.tabular.values import RowError, is_missing, kind_of, read_number

__all__ = ["FIRST_ROWS", "Choices", "Schema", "infer"]

FIRST_ROWS = 200
"""Column types are inferred from this many rows, before the first is learned."""
FEW = 20
"""Integers of at most this many different values are classes."""
MOST_KEYS, MOST_NUMBERS = 4, 2
"""Experts go by this many columns of categories, and of whole numbers, the first ones."""
ID_NAME = re.compile(r"(^|[\W_])(id|ids|key|code|zip|nr|no|[hpu]id)$|[a-z](Id|ID)$", re.IGNORECASE)
"""Names of columns whose whole numbers are names."""
COLUMNS = ("kinds", "forms", "keys", "notes", "columns")
"""What a schema says of columns."""
STORED_TASKS: dict[str, Task] = {"classes": "classification", "numbers": "regression"}
"""Tasks by the names that a state folder has had since the first version."""


@dataclass(frozen=True, kw_only=True)
class Choices(Options):
    """What makes a stream's learner: chosen at the first start and kept from then on."""

    target: str = ""
    """the column to predict"""
    environment: str = ""
    """a column that names the environment of a row: not an input; accuracy is reported by it"""
    image: str = ""
    """a column of image file names, which become the inputs"""
    size: int = 32
    """images are resized to this height and width in pixels"""
    model: str = ""
    """module:function that creates the network from the number of inputs (channels, for images)
    and outputs; by default an MLP, or a CNN for images"""

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.integer("size", self.size, least=1)


@dataclass
class Schema:
    """A stream's columns, its task, and the choices that it was started with.

    >>> Schema(Choices(target="class")).task
    'classification'
    """

    choices: Choices = field(default_factory=Choices)
    task: Task = "classification"
    kinds: dict[str, str] = field(default_factory=dict)
    """By column: `"number"`, `"category"` or `""` if it is not an input."""
    forms: dict[str, str] = field(default_factory=dict)
    """By column, how its numbers or times are written: see `values.kind_of`."""
    keys: list[str] = field(default_factory=list)
    """What experts go by: see `TableEncoder`."""
    notes: dict[str, str] = field(default_factory=dict)
    """By column, what is to be said of it: that it is left out, and why."""
    columns: list[str] = field(default_factory=list)
    """The columns that were there from the start; others in `kinds` came later."""

    def state_dict(self) -> dict[str, Any]:
        """All fields, flat."""
        state = asdict(self.choices) | {name: getattr(self, name) for name in COLUMNS}
        state["batch"], state["buffer"] = state.pop("batch_size"), state.pop("buffer_size")
        return state | {"task": next(old for old, new in STORED_TASKS.items() if new == self.task)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        saved = dict(state)
        if not saved.keys() >= set(COLUMNS):
            raise ValueError(
                "this was learned by an earlier version of taskfree, whose networks had other "
                "inputs; start in another folder"
            )
        for name in ("kinds", "forms"):  # the same dicts: an encoder has them too
            own, found = getattr(self, name), saved.pop(name)
            own.clear()
            own.update(found)
        self.keys, self.notes, self.columns = (
            saved.pop(name) for name in ("keys", "notes", "columns")
        )
        self.task = STORED_TASKS[saved.pop("task")]
        saved["batch_size"], saved["buffer_size"] = saved.pop("batch"), saved.pop("buffer")
        self.choices = Choices(**saved)


def infer(
    rows: Sequence[Row],
    source: Source,
    choices: Choices,
    *,
    task: Task | None = None,
    ignore: Sequence[str] = (),
) -> Schema:
    """The schema of a new stream, from its first rows.

    Args:
        rows: the first rows.
        source: where they come from.
        choices: what makes its learner.
        task: inferred from the targets if None.
        ignore: columns that are not inputs.
    """
    readable = [row.values for row in rows if not row.problem]
    if not readable:
        raise ValueError(
            f"none of the first {len(rows)} rows of {source.name} can be read"
            + (f": {source.unit} {rows[0].number} {rows[0].problem}" if rows else "; it is empty")
        )
    columns = list(source.columns) or list({name: None for row in readable for name in row})
    optional = (choices.image, choices.environment)
    named = [choices.target, *ignore, *(name for name in optional if name)]
    for name in named:
        if name not in columns:
            raise ValueError(
                f"{source.name} has no column {name!r}; it has {', '.join(map(repr, columns))}"
            )
    pick = source.picker(columns)
    values = dict(zip(columns, zip(*map(pick, readable), strict=True), strict=True))
    schema = Schema(choices, task or _infer_task(values[choices.target]), columns=columns)
    for name in columns:
        _infer_column(schema, name, [] if name in named or choices.image else values[name])
    schema.keys = _keys(schema, values)
    if schema.task == "classification" and kind_of(values[choices.target])[0] == "number":
        schema.notes[choices.target] = (
            "the target: its whole numbers are classes; --task regression if they are amounts"
        )
    if schema.task == "regression":
        schema.forms[choices.target] = kind_of(values[choices.target])[1]
    return schema


def _infer_column(schema: Schema, name: str, values: Sequence[Any]) -> None:
    """What a column holds, and what is to be said of it; no values for one that is no input."""
    if not values:
        schema.kinds[name] = ""
        return
    kind, form = cast(tuple[str, str], kind_of(values, name))
    present = [value for value in values if not is_missing(value)]
    many = len(present) >= FEW
    distinct = len(set(map(str, present)))
    is_id = kind == "number" and bool(ID_NAME.search(name)) and _are_whole(present)
    if kind == "number" and not form and _counts(present):
        kind, schema.notes[name] = "", "left out: it counts the rows"
    elif (kind == "category" or is_id) and many and distinct == len(present):
        kind, schema.notes[name] = "", f"left out: all of its first {distinct} values differ"
    elif is_id:
        kind, schema.notes[name] = "category", "its whole numbers are read as names"
    elif not present:
        schema.notes[name] = f"has no value in the first {len(values)} rows"
    elif many and distinct == 1:
        schema.notes[name] = f"is {present[0]!r} in all of the first {len(present)} rows"
    elif form and kind == "number":
        schema.notes[name] = f"numbers with a decimal {form}, such as {present[0]!r}"
    elif kind in ("time", "text"):
        schema.notes[name] = f"{kind}, such as {str(present[0])[:40]!r}"
    schema.kinds[name] = kind
    if form and kind:
        schema.forms[name] = form


def _counts(values: Sequence[Any]) -> bool:
    """Whether each value is one more than that before.

    >>> _counts(["1", "2", "3", "4"]), _counts(["1", "2", "2"])
    (True, False)
    """
    try:
        numbers = [float(value) for value in values]
    except (TypeError, ValueError):
        return False
    return len(numbers) > 3 and all(b - a == 1 for a, b in pairwise(numbers))


def _are_whole(values: Sequence[Any]) -> bool:
    """Whether these are whole numbers.

    >>> _are_whole(["7", 8.0]), _are_whole(["0.5"]), _are_whole(["x"])
    (True, False, False)
    """
    try:
        return all(float(value).is_integer() for value in values)
    except (TypeError, ValueError, OverflowError):
        return False


def _repeats(values: Sequence[Any]) -> bool:
    """Whether at least half of these whole numbers came before, and not all are the same.

    >>> _repeats(["7", "8", "7", "8"]), _repeats(["7", "8"]), _repeats(["0.5", "0.5"])
    (True, False, False)
    """
    return _are_whole(values) and 1 < len(set(map(float, values))) <= len(values) / 2


def _keys(schema: Schema, values: Mapping[str, Sequence[Any]]) -> list[str]:
    """What experts go by: categories, the times that recur, and whole numbers that repeat."""
    by_kind: dict[str, list[str]] = {"category": [], "time": [], "number": []}
    for name, kind in schema.kinds.items():
        if kind in by_kind:
            by_kind[kind].append(name)
    keys = by_kind["category"][:MOST_KEYS]
    for name in by_kind["time"][:1]:
        column = TimeColumn(name, schema.forms[name], Inputs())
        times = [_read(column, value) for value in values[name]]
        hours = {time.hour for time in times if time is not None}
        keys += [f"hour of {name}"] if len(hours) > 1 else []
        keys += [f"weekday of {name}", f"month of {name}"]
    whole = [
        name
        for name in by_kind["number"]
        if name not in schema.forms and _repeats([v for v in values[name] if not is_missing(v)])
    ]
    return keys + whole[:MOST_NUMBERS]


def _read(column: TimeColumn, value: Any) -> datetime | None:
    try:
        return column.read(value)
    except RowError:
        return None


def _infer_task(targets: Sequence[Any]) -> Task:
    """Classification if targets are names or few integers.

    >>> _infer_task(["up", "down"]), _infer_task(["0", "1", "1"]), _infer_task(["0.5", "2"])
    ('classification', 'classification', 'regression')
    """
    present = [value for value in targets if not is_missing(value)]
    if kind_of(present)[0] != "number" or any(isinstance(value, bool) for value in present):
        return "classification"
    form = kind_of(present)[1]
    numbers = {number for value in present if (number := _number(value, form)) is not None}
    few = len(numbers) <= FEW and all(number.is_integer() for number in numbers)
    return "classification" if few else "regression"


def _number(value: Any, form: str) -> float | None:
    try:
        return read_number(value, form)
    except (TypeError, ValueError, OverflowError):
        return None
