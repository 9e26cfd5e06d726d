"""What a column is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from taskfree.tabular.columns.inputs import Written


class Column(Protocol):
    """Reads the values of one column, and writes them into the inputs of a network.

    A value is read first, which can fail, and written only if the whole row could be read.
    """

    name: str
    kind: str

    def read(self, value: Any) -> Any:
        """A value as it is written later, None if it is missing; a RowError says what is wrong."""

    def write(self, values: Sequence[Any], to: Written, learn: bool) -> None:
        """Write the values of some rows. With `learn=False` nothing gets an input of its own."""

    def keys(self, values: Sequence[Any]) -> Mapping[str, Sequence[str | None]]:
        """By name, what the rows have in common with others: their category, the hour."""

    def names(self) -> Mapping[int, str]:
        """What each of its inputs is."""

    def text(self, inputs: Mapping[int, float]) -> str:
        """The value that was written, by the inputs that are not absent."""

    def state_dict(self) -> dict[str, Any]:
        """Everything that it has learned."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
