"""Triggers that follow a schedule instead of the loss: baselines and oracles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from torch import Tensor

from taskfree._core import validation
from taskfree._core.serialization import load_fields, save_fields
from taskfree.when.trigger import Decision, Explanation


class Every:
    """Consolidate every `n` time steps, whatever the loss does.

    >>> trigger = Every(3)
    >>> [trigger.update(1.0) for _ in range(6)]
    [None, None, 'plateau', None, None, 'plateau']
    """

    armed = True
    window_mean = math.nan

    def __init__(self, n: int) -> None:
        self.n = validation.integer("n", n, least=1)
        self.since = 0

    def update(self, loss: float) -> Decision | None:
        """Count one time step."""
        self.since = (self.since + 1) % self.n
        return "plateau" if self.since == 0 else None

    def explain(self, decision: Decision | None) -> Explanation:
        """How many time steps have passed."""
        passed = self.n if decision == "plateau" else self.since
        return Explanation(f"{passed} of {self.n} time steps have passed")

    def state_dict(self) -> dict[str, Tensor]:
        """How many time steps have passed since the last consolidation."""
        return save_fields(self, ["since"])

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        load_fields(self, ["since"], state)


class At:
    """Oracle trigger: consolidate at the given time steps, counted from 1.

    >>> trigger = At([2, 3])
    >>> [trigger.update(1.0) for _ in range(4)]
    [None, 'plateau', 'plateau', None]
    """

    armed = True
    window_mean = math.nan

    def __init__(self, steps: Iterable[int]) -> None:
        self.steps = frozenset(validation.integer("steps", step, least=1) for step in steps)
        self.step = 0

    def update(self, loss: float) -> Decision | None:
        """Count one time step."""
        self.step += 1
        return "plateau" if self.step in self.steps else None

    def explain(self, decision: Decision | None) -> Explanation:
        """Which time step it is."""
        scheduled = "" if decision == "plateau" else "not "
        return Explanation(f"time step {self.step} is {scheduled}scheduled")

    def state_dict(self) -> dict[str, Tensor]:
        """How many time steps have passed."""
        return save_fields(self, ["step"])

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        load_fields(self, ["step"], state)


class Never:
    """Never consolidate: online learning without regularization.

    >>> Never().update(0.0) is None
    True
    """

    armed = False
    window_mean = math.nan

    def update(self, loss: float) -> Decision | None:
        """Ignore the loss."""
        return None

    def explain(self, decision: Decision | None) -> Explanation:
        """That it never decides anything."""
        return Explanation("this trigger never consolidates")

    def state_dict(self) -> dict[str, Tensor]:
        """Nothing."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Nothing to continue from."""
