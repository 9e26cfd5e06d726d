"""The paper's trigger: a plateau is a window of low and steady losses."""

from __future__ import annotations

import math
from collections.abc import Mapping

from torch import Tensor

from taskfree._core import validation
from taskfree._core.serialization import load_fields, save_fields
from taskfree.when.trigger import Decision, Explanation, check_window

STATE = (
    "window", "window_mean", "window_variance", "armed", "plateau_mean", "plateau_deviation",
)  # fmt: skip


class Plateau:
    """The paper's trigger: consolidate where the loss is low and steady, once after each peak.

    A plateau is a full window whose mean and population variance are both below the thresholds. It
    empties the window and disarms the trigger. A peak is a window whose mean exceeds the plateau's
    mean by more than the plateau's standard deviation. It arms the trigger again.

    Aljundi, Kelchtermans and Tuytelaars, *Task-Free Continual Learning*, CVPR 2019.

    Args:
        window: how many losses are judged together.
        mean: the threshold on their mean.
        variance: the threshold on their population variance.

    >>> trigger = Plateau(window=2, mean=0.5, variance=0.1)
    >>> [trigger.update(loss) for loss in [2.0, 0.4, 0.4, 0.4, 0.4, 1.9, 0.3, 0.3]]
    [None, None, 'plateau', None, None, 'peak', None, 'plateau']
    >>> trigger.explain("plateau").text
    'the last 2 losses have mean 0.3 (below 0.5) and variance 0 (below 0.1)'
    """

    def __init__(self, window: int, mean: float, variance: float) -> None:
        self.mean = validation.number("mean", mean)
        self.variance = validation.number(
            "variance", variance, above=0, hint="no window has a variance below that"
        )
        self._start(window)

    def _start(self, window: int) -> None:
        self.size = validation.integer("window", window, least=1)
        self.window: tuple[float, ...] = ()
        self.window_mean = self.window_variance = math.nan
        self.armed = True
        self.plateau_mean = 0.0
        self.plateau_deviation = 0.0

    def update(self, loss: float) -> Decision | None:
        """Take the loss of one time step and decide."""
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
        text = f"the last {self.size} losses have mean {mean:.3g}"
        if decision == "plateau" or (decision is None and self.armed):
            low, steady = self._thresholds(mean)
            text += (
                f" ({'' if mean < low else 'not '}below {low:.3g}) and variance {variance:.3g} "
                f"({'' if variance < steady else 'not '}below {steady:.3g})"
            )
            return Explanation(text, variance, {"mean": low, "variance": steady})
        level = self.plateau_mean + self.plateau_deviation
        text += (
            f" ({'' if mean > level else 'not '}above {level:.3g}: the last plateau's mean "
            f"{self.plateau_mean:.3g} plus standard deviation {self.plateau_deviation:.3g})"
        )
        return Explanation(text, variance, {"mean": level})

    def state_dict(self) -> dict[str, Tensor]:
        """The window, whether it is armed, and the last plateau's mean and standard deviation."""
        return save_fields(self, STATE)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        check_window(tuple(state["window"].tolist()), self.size)
        load_fields(self, STATE, state)
