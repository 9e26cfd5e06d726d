"""The interface of a trigger."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol, TypeAlias

from torch import Tensor

Decision: TypeAlias = Literal["plateau", "peak"]


class Explanation(NamedTuple):
    """Why a trigger decided as it did.

    >>> Explanation("3 of 3 time steps have passed").thresholds
    {}
    """

    text: str
    """One sentence with the numbers."""
    variance: float = math.nan
    """The variance of the window that was judged; nan if there is none."""
    thresholds: Mapping[str, float] = {}
    """What the window's statistics were compared with, by name."""


class Trigger(Protocol):
    """What the learner requires of a trigger. `taskfree.checks.check_trigger` tests yours.

    `update` assigns new attributes and never changes objects in place, so that a failed step can
    be undone.

    >>> from taskfree import checks, when
    >>> class Once:
    ...     armed, window_mean = True, float("nan")
    ...     def update(self, loss):
    ...         armed, self.armed = self.armed, False
    ...         return "plateau" if armed else None
    ...     def explain(self, decision):
    ...         return when.Explanation("it is the first step")
    ...     def state_dict(self):
    ...         return {"armed": torch.tensor(self.armed)}
    ...     def load_state_dict(self, state):
    ...         self.armed = bool(state["armed"])
    >>> import torch
    >>> checks.check_trigger(Once)
    """

    armed: bool
    """Whether the next plateau consolidates."""
    window_mean: float
    """The mean of the window judged last; nan while it fills, or if there is none."""

    def update(self, loss: float) -> Decision | None:
        """Take the loss of one time step and decide."""

    def explain(self, decision: Decision | None) -> Explanation:
        """Why the last update decided so."""

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that later decisions depend on."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""


def check_window(window: tuple[float, ...], size: int) -> None:
    """Raise if a saved window does not fit into one of `size` losses."""
    if len(window) > size:
        raise ValueError(
            f"the saved window holds {len(window)} losses and this trigger's {size}; "
            "load it into a trigger with the window it was saved from"
        )
