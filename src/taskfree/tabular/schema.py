"""The schema of a stream: what its columns and its target are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from taskfree._core import validation
from taskfree.tabular.model import Task
from taskfree.tabular.options import Options
from taskfree.tabular.sources import Row, Source
from taskfree.tabular.values import is_missing, kind_of

__all__ = ["FIRST_ROWS", "Choices", "Schema", "infer"]

FIRST_ROWS = 200
"""Column types are inferred from this many rows, before the first is learned."""
FEW = 20
"""Integers of at most this many different values are classes."""
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
    gaps: list[str] = field(default_factory=list)
    """The number columns with missing values."""

    def state_dict(self) -> dict[str, Any]:
        """All fields, flat, by the names they have had since the first version."""
        state = asdict(self.choices) | {"kinds": self.kinds, "gaps": self.gaps}
        state["batch"], state["buffer"] = state.pop("batch_size"), state.pop("buffer_size")
        return state | {"task": next(old for old, new in STORED_TASKS.items() if new == self.task)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        saved = dict(state)
        self.kinds, self.gaps = saved.pop("kinds"), saved.pop("gaps")
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
    kinds = {
        name: "" if name in named or choices.image else kind_of(values[name]) for name in columns
    }
    numbers = [name for name, kind in kinds.items() if kind == "number"]
    gaps = [name for name in numbers if any(map(is_missing, values[name]))]
    return Schema(choices, task or _infer_task(values[choices.target]), kinds, gaps)


def _infer_task(targets: Sequence[Any]) -> Task:
    """Classification if targets are names or few integers.

    >>> _infer_task(["up", "down"]), _infer_task(["0", "1", "1"]), _infer_task(["0.5", "2"])
    ('classification', 'classification', 'regression')
    """
    present = [value for value in targets if not is_missing(value)]
    if kind_of(present) == "category" or any(isinstance(value, bool) for value in present):
        return "classification"
    numbers = {float(value) for value in present if kind_of([value]) == "number"}
    few = len(numbers) <= FEW and all(number.is_integer() for number in numbers)
    return "classification" if few else "regression"
