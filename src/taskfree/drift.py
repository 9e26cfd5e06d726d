"""Drift detectors of other libraries, river's for example, as triggers: for comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from taskfree import arguments
from taskfree.when import Decision, Explanation

__all__ = ["Drift"]

MEMORY = 1000
"""How many losses a detector is fed before it is started anew on the later half of them."""


class Detector(Protocol):
    """What is asked of a detector: river's ADWIN, PageHinkley, KSWIN and others have it."""

    @property
    def drift_detected(self) -> bool:
        """Whether the last update found a change."""

    def update(self, value: float) -> Any:
        """Take in a value."""

    def clone(self) -> Any:
        """A new one with the same settings."""


class Drift:
    """Consolidate so many steps after each change that a detector finds, and after the start.

    A detector says when the stream has changed, not when the change has been learned: that is
    taken to be `after` time steps later. After a change the detector starts anew.

    Args:
        detector: for example `river.drift.ADWIN()`; give one that draws at random a seed.
        after: how many time steps a change is given.
    """

    window_mean = math.nan

    def __init__(self, detector: Detector, after: int = 60) -> None:
        self.after = arguments.whole("after", after, least=1)
        self.armed = True
        self.since = 0
        self._new = detector
        self._losses: tuple[float, ...] = ()
        """What the detector was fed since it was started: its state, for any detector."""
        self._running: list[Any] = [detector.clone(), 0]

    def update(self, loss: float) -> Decision | None:
        """Take in the loss of one time step and decide."""
        if self._running[1] != len(self._losses):  # a step was taken back, or a state was loaded
            self._start(self._losses)
        detector = self._running[0]
        self._running[1] += 1  # in place: a step that is taken back does not take this back
        detector.update(loss)
        self._losses = (*self._losses, loss)
        self.since += 1
        if detector.drift_detected:
            self.since = 0
            self._start(())
            peak, self.armed = not self.armed, True
            return "peak" if peak else None
        if len(self._losses) == MEMORY:
            self._start(self._losses[MEMORY // 2 :])
        if self.armed and self.since >= self.after:
            self.armed = False
            return "plateau"
        return None

    def _start(self, losses: tuple[float, ...]) -> None:
        detector = self._new.clone()
        for loss in losses:
            detector.update(loss)
        self._losses, self._running = losses, [detector, len(losses)]

    def explain(self, decision: Decision | None) -> Explanation:
        """How long ago the last change was found."""
        name = type(self._new).__name__
        if decision == "peak":
            return Explanation(f"{name} found that the loss has changed")
        return Explanation(f"{self.since} steps have passed since {name} found a change, or began")

    def state_dict(self) -> dict[str, Tensor]:
        """What the detector was fed, and how long ago the last change was."""
        return {
            "armed": torch.tensor(self.armed),
            "since": torch.tensor(self.since),
            "losses": torch.tensor(self._losses, dtype=torch.float64),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        self.armed, self.since = bool(state["armed"]), int(state["since"])
        self._losses = tuple(state["losses"].tolist())
        self._running = [None, -1]
