"""How far each source has been read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taskfree.tabular.sources import START, Position, Source

__all__ = ["Progress"]


class Progress:
    """How many rows were read, skipped or without a target, and where each source continues."""

    def __init__(self) -> None:
        self.rows = self.skipped = self.unlabelled = 0
        self.written: dict[str, int] = {}
        """By file of predictions, its length."""
        self.places: dict[str, dict[str, Any]] = {}

    def position(self, source: Source) -> Position:
        """Where to continue a source."""
        saved = self.places.get(source.name)
        if saved is None or source.live:
            return START
        return source.continue_from(saved)

    def reached(self, source: Source, position: Position) -> None:
        """Remember how far a source has been read."""
        if not source.live:
            self.places[source.name] = source.place(position)

    def state_dict(self) -> dict[str, Any]:
        """Counts and positions."""
        return {
            "rows": self.rows, "skipped": self.skipped, "places": self.places,
            "unlabelled": self.unlabelled, "written": self.written,
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.rows, self.skipped = state["rows"], state["skipped"]
        self.unlabelled, self.written = state["unlabelled"], dict(state["written"])
        self.places = {name: dict(saved) for name, saved in state["places"].items()}
