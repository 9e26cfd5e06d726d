"""Columns of names: the first ones have an input each, thousands more share some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import torch

from taskfree.tabular.columns.inputs import Inputs, Written
from taskfree.tabular.values import is_missing, text_of

OWN = 50
"""So many categories of a column have an input each."""
SHARED, HASHES = 64, 3
"""Each later one has 3 of 64 inputs, by hashes: together an embedding of its own."""
TRUTH = {"true": "true", "false": "false"}
"""How these are written does not matter."""


class CategoryColumn:
    """Names, codes and ids. A category gets its input when it first comes.

    Args:
        name: of the column.
        inputs: where it writes.

    >>> inputs = Inputs()
    >>> road = CategoryColumn("road", inputs)
    >>> written = Written(2, 0, 0)
    >>> road.write(["wet", "dry"], written, learn=True)
    >>> inputs.prepare(inputs.finish(written, learn=True))
    tensor([[1., 0.],
            [0., 1.]])
    """

    kind = "category"

    def __init__(self, name: str, inputs: Inputs) -> None:
        self.name, self._inputs = name, inputs
        self.places: dict[str, int] = {}
        """By category, its input."""
        self.shared: int | None = None
        """The first of the shared inputs."""

    def read(self, value: Any) -> str | None:
        """The category."""
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # 1 and 1.0 are the same
        if is_missing(value):
            return None
        text = text_of(value).strip()
        return TRUTH.get(text.lower(), text) if len(text) < 6 else text

    def write(self, values: Sequence[str | None], to: Written, learn: bool) -> None:
        """One-hot; later categories have several inputs."""
        rows, places = list[int](), list[int]()
        for row, value in enumerate(values):
            if value is None:
                continue
            found = self._find(value, learn)
            rows += [row] * len(found)
            places += found
        if places:
            to.fit(self._inputs)
            to.values[torch.tensor(rows), torch.tensor(places)] = 1.0

    def _find(self, value: str, learn: bool) -> list[int]:
        place = self.places.get(value)
        if place is not None:
            return [place]
        if learn and len(self.places) < OWN:
            place = self.places[value] = self._inputs.take(1)
            return [place]
        if self.shared is None:
            if not learn:
                return []  # it has never been learned
            self.shared = self._inputs.take(SHARED)
        digest = blake2b(value.encode(), digest_size=HASHES).digest()
        return [self.shared + byte % SHARED for byte in digest]

    def keys(self, values: Sequence[str | None]) -> Mapping[str, Sequence[str | None]]:
        """The categories."""
        return {self.name: values}

    def names(self) -> Mapping[int, str]:
        """The categories, and which of the shared ones."""
        found = {place: f"{self.name}={value}" for value, place in self.places.items()}
        if self.shared is not None:
            found |= {self.shared + at: f"{self.name} hash {at}" for at in range(SHARED)}
        return found

    def text(self, inputs: Mapping[int, float]) -> str:
        """The category, if it has an input of its own."""
        found = [name for name, place in self.places.items() if place in inputs]
        if found:
            return found[0]
        first = self.shared
        shared = first is not None and any(first <= place < first + SHARED for place in inputs)
        return "a rare one" if shared else "missing"

    def state_dict(self) -> dict[str, Any]:
        """The inputs of the categories."""
        return {"places": dict(self.places), "shared": self.shared}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.places, self.shared = dict(state["places"]), state["shared"]
