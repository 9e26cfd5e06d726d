"""Columns of a table, by what they hold: each writes its values into the inputs of a network."""

from taskfree.tabular.columns.category import CategoryColumn
from taskfree.tabular.columns.column import Column
from taskfree.tabular.columns.inputs import ABSENT, Inputs
from taskfree.tabular.columns.number import NumberColumn
from taskfree.tabular.columns.text import TextColumn
from taskfree.tabular.columns.time import TimeColumn

__all__ = [
    "ABSENT",
    "CategoryColumn",
    "Column",
    "Inputs",
    "NumberColumn",
    "TextColumn",
    "TimeColumn",
    "make",
]


def make(kind: str, name: str, form: str, inputs: Inputs) -> Column:
    """A column of a kind.

    Args:
        kind: `"number"`, `"category"`, `"time"` or `"text"`.
        name: of the column.
        form: how its numbers or times are written: see `values.kind_of`.
        inputs: where it writes.

    >>> make("category", "road", "", Inputs()).name
    'road'
    """
    if kind == "number":
        return NumberColumn(name, form, inputs)
    if kind == "time":
        return TimeColumn(name, form, inputs)
    return CategoryColumn(name, inputs) if kind == "category" else TextColumn(name, inputs)
