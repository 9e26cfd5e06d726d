"""WHEN to consolidate: plateaus and peaks of the loss, seen through a short window.

A trigger is fed one loss a time step and answers `"plateau"` (consolidate now), `"peak"` (new,
harder data has come: look out for the next plateau) or None. Every trigger keeps a bounded
amount of state, however long the stream.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor

from taskfree import arguments

__all__ = ["Decision", "Every", "Explanation", "Never", "Plateau", "RelativePlateau", "Trigger"]

Decision: TypeAlias = Literal["plateau", "peak"]


class Explanation(NamedTuple):
    """Why a trigger decided as it did."""

    text: str
    """One sentence with the numbers."""
    variance: float = math.nan
    """The variance of the window judged last; nan if there is none."""
    thresholds: Mapping[str, float] = {}
    """What the window's numbers were compared with, by name."""


class Trigger(Protocol):
    """What the learner asks of a trigger. `taskfree.checks.check_trigger` tries yours.

    `update` replaces attributes and does not change objects in place, so that a step that fails
    can be taken back.
    """

    armed: bool
    """Whether the next plateau consolidates."""
    window_mean: float
    """The mean of the window judged last; nan while it fills, or if there is none."""

    def update(self, loss: float) -> Decision | None:
        """Take in the loss of one time step and decide."""

    def explain(self, decision: Decision | None) -> Explanation:
        """Why the last update decided so."""

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that later decisions depend on."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""


class Plateau:
    """The paper's trigger: consolidate where the loss is low and steady, once after each peak.

    A full window whose mean and population variance are both below the thresholds is a plateau.
    It empties the window and disarms the trigger, until a window's mean rises above the
    plateau's mean by more than the plateau's standard deviation: a peak, which arms it again.

    Args:
        window: how many losses are looked at together.
        mean: the threshold on their mean.
        variance: the threshold on their population variance.

    >>> trigger = Plateau(window=2, mean=0.5, variance=0.1)
    >>> [trigger.update(loss) for loss in [2.0, 0.4, 0.4, 0.4, 0.4, 1.9, 0.3, 0.3]]
    [None, None, 'plateau', None, None, 'peak', None, 'plateau']
    >>> trigger.explain("plateau").text
    'the last 2 losses have a mean of 0.3, below 0.5, and a variance of 0, below 0.1'
    """

    def __init__(self, window: int, mean: float, variance: float) -> None:
        self.mean = arguments.number("mean", mean)
        self.variance = arguments.number(
            "variance", variance, above=0, hint="no window has a variance below that"
        )
        self._start(window)

    def _start(self, window: int) -> None:
        self.size = arguments.whole("window", window, least=1)
        self.window: tuple[float, ...] = ()
        self.window_mean = self.window_variance = math.nan
        self.armed = True
        self.plateau_mean = 0.0
        self.plateau_deviation = 0.0

    def update(self, loss: float) -> Decision | None:
        """Take in the loss of one time step and decide."""
        self.window = (*self.window, loss)[-self.size :]
        if len(self.window) < self.size:
            self.window_mean = self.window_variance = math.nan
            return None
        mean = self.window_mean = sum(self.window) / self.size
        variance = sum((loss - mean) * (loss - mean) for loss in self.window) / self.size
        self.window_variance = variance
        if self.armed:
            mean_threshold, variance_threshold = self._thresholds(mean)
            if mean < mean_threshold and variance < variance_threshold:
                self.plateau_mean, self.plateau_deviation = mean, math.sqrt(variance)
                self.window = ()
                self.armed = False
                return "plateau"
        elif mean > self.plateau_mean + self.plateau_deviation:
            self.armed = True
            return "peak"
        return None

    def _thresholds(self, mean: float) -> tuple[float, float]:
        return self.mean, self.variance

    def explain(self, decision: Decision | None) -> Explanation:
        """Why the last update decided so."""
        mean, variance = self.window_mean, self.window_variance
        if math.isnan(mean):
            return Explanation(f"the window holds {len(self.window)} of {self.size} losses")
        said = f"the last {self.size} losses have a mean of {mean:.3g}"
        if decision == "plateau" or (decision is None and self.armed):
            low, steady = self._thresholds(mean)
            text = (
                f"{said}, {'' if mean < low else 'not '}below {low:.3g}, and a variance of "
                f"{variance:.3g}, {'' if variance < steady else 'not '}below {steady:.3g}"
            )
            return Explanation(text, variance, {"mean": low, "variance": steady})
        level = self.plateau_mean + self.plateau_deviation
        text = (
            f"{said}, {'' if mean > level else 'not '}above {level:.3g}: the last plateau's mean "
            f"of {self.plateau_mean:.3g} and standard deviation of {self.plateau_deviation:.3g}"
        )
        return Explanation(text, variance, {"mean": level})

    def state_dict(self) -> dict[str, Tensor]:
        """The window, whether it is armed, and the last plateau's mean and deviation."""
        return {
            "window": torch.tensor(self.window, dtype=torch.float64),
            "window_mean": torch.tensor(self.window_mean, dtype=torch.float64),
            "window_variance": torch.tensor(self.window_variance, dtype=torch.float64),
            "armed": torch.tensor(self.armed),
            "plateau_mean": torch.tensor(self.plateau_mean, dtype=torch.float64),
            "plateau_deviation": torch.tensor(self.plateau_deviation, dtype=torch.float64),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        window = tuple(state["window"].tolist())
        if len(window) > self.size:
            raise ValueError(
                f"the saved window holds {len(window)} losses and this trigger's {self.size}; "
                "load it into a trigger with the window it was saved from"
            )
        names = ("window_mean", "window_variance", "plateau_mean", "plateau_deviation")
        numbers = {name: state[name].item() for name in names}
        self.armed, self.window = bool(state["armed"]), window
        vars(self).update(numbers)


class RelativePlateau(Plateau):
    """A plateau measured against the height that the loss came down from: no loss scale to set.

    A plateau is a full window whose mean is below `fall` times the height, and whose standard
    deviation is below `ripple` times the height: the largest window mean since the last peak
    (at first: since the start). Peaks are the paper's.

    >>> trigger = RelativePlateau(window=2)
    >>> [trigger.update(100 * loss) for loss in [2.0, 2.0, 1.0, 0.3, 0.3, 0.3]]
    [None, None, None, None, 'plateau', None]
    """

    def __init__(self, window: int = 5, fall: float = 0.2, ripple: float = 0.3) -> None:
        self.fall = arguments.number("fall", fall, above=0, hint="0.2: a fifth of the height")
        self.ripple = arguments.number("ripple", ripple, above=0, hint="as a part of the height")
        self.height = 0.0
        self._start(window)

    def update(self, loss: float) -> Decision | None:
        """Take in the loss of one time step and decide."""
        decision = super().update(loss)
        if decision == "peak":
            self.height = self.window_mean
        return decision

    def _thresholds(self, mean: float) -> tuple[float, float]:
        self.height = max(self.height, mean)
        spread = self.ripple * self.height
        return self.fall * self.height, spread * spread

    def explain(self, decision: Decision | None) -> Explanation:
        """Why the last update decided so."""
        told = super().explain(decision)
        if "variance" not in told.thresholds:
            return told
        return told._replace(text=f"{told.text}; it came down from {self.height:.3g}")

    def state_dict(self) -> dict[str, Tensor]:
        """The state of the window and the height."""
        return super().state_dict() | {"height": torch.tensor(self.height, dtype=torch.float64)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        height = state["height"].item()
        super().load_state_dict(state)
        self.height = height


class Every:
    """Consolidate every `n` time steps, whatever the loss does: for comparison.

    >>> trigger = Every(3)
    >>> [trigger.update(1.0) for _ in range(6)]
    [None, None, 'plateau', None, None, 'plateau']
    """

    armed = True
    window_mean = math.nan

    def __init__(self, n: int) -> None:
        self.n = arguments.whole("n", n, least=1)
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
        return {"since": torch.tensor(self.since)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        self.since = int(state["since"])


class Never:
    """Never consolidate: online learning without importance weights.

    >>> Never().update(0.0) is None
    True
    """

    armed = False
    window_mean = math.nan

    def update(self, loss: float) -> Decision | None:
        """Let the loss pass."""
        return None

    def explain(self, decision: Decision | None) -> Explanation:
        """There is no more to say."""
        return Explanation("this trigger never decides anything")

    def state_dict(self) -> dict[str, Tensor]:
        """Nothing."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Nothing to continue from."""
