"""Columns of numbers, in which codes may turn up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from taskfree.tabular.columns.category import CategoryColumn
from taskfree.tabular.columns.inputs import LARGEST, Inputs, Written
from taskfree.tabular.values import RowError, read_number


class NumberColumn:
    """Numbers, standardized by the statistics so far.

    What is not a number is a code: the number is missing, and the code is a category. A missing
    number is seen as the mean; once one was missing, another input marks it.

    Args:
        name: of the column.
        form: how they are written: `""` for plain numbers, or with a `"point"` or a `"comma"`.
        inputs: where it writes.

    >>> inputs = Inputs()
    >>> speed = NumberColumn("speed", "", inputs)
    >>> written = Written(3, 1, 1)
    >>> speed.write([speed.read(value) for value in ("1", "3", "full")], written, learn=True)
    >>> inputs.prepare(inputs.finish(written, learn=True))
    tensor([[-1.,  0.,  0.],
            [ 1.,  0.,  0.],
            [ 0.,  1.,  1.]])
    """

    kind = "number"

    def __init__(self, name: str, form: str, inputs: Inputs) -> None:
        self.name, self.form, self._inputs = name, form, inputs
        self.place = inputs.take_number()
        self.number = len(inputs.scaled) - 1
        """Which of the standardized inputs it is."""
        self.missing: int | None = None
        """The input that marks a missing number."""
        self.codes = CategoryColumn(name, inputs)

    def read(self, value: Any) -> float | str | None:
        """The number, or a code."""
        try:
            number = read_number(value, self.form)
        except (TypeError, ValueError, OverflowError):
            return self.codes.read(value)
        if math.isinf(number):
            raise RowError(f"{self.name} is infinite")
        return None if math.isnan(number) else max(-LARGEST, min(LARGEST, number))

    def write(self, values: Sequence[float | str | None], to: Written, learn: bool) -> None:
        """The number, or a mark that it is missing, with a code if there is one."""
        numbers = [v if isinstance(v, float) else math.nan for v in values]
        to.fit(self._inputs)
        to.numbers[:, self.number] = torch.tensor(numbers, dtype=torch.float64)
        if not any(map(math.isnan, numbers)):
            return
        if self.missing is None:
            if not learn:
                return
            self.missing = self._inputs.take(1)
            to.fit(self._inputs)
        rows = [row for row, number in enumerate(numbers) if math.isnan(number)]
        to.values[rows, self.missing] = 1.0
        self.codes.write([v if isinstance(v, str) else None for v in values], to, learn)

    def keys(self, values: Sequence[float | str | None]) -> Mapping[str, Sequence[str | None]]:
        """The whole numbers."""
        return {self.name: [None if v is None else str(v) for v in values]}

    def names(self) -> Mapping[int, str]:
        """The number, the mark of a missing one, and codes."""
        found = {self.place: self.name, **self.codes.names()}
        return found if self.missing is None else found | {self.missing: f"{self.name} missing"}

    def text(self, inputs: Mapping[int, float]) -> str:
        """The number or the code."""
        if self.place in inputs:
            return f"{inputs[self.place]:.6g}"
        return self.codes.text(inputs)

    def state_dict(self) -> dict[str, Any]:
        """The input that marks what is missing, and the codes."""
        return {
            "place": self.place, "number": self.number, "missing": self.missing,
            "codes": self.codes.state_dict(),
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.place, self.number = state["place"], state["number"]
        self.missing = state["missing"]
        self.codes.load_state_dict(state["codes"])
