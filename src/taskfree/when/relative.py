"""A plateau relative to the height from which the loss came down."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from taskfree._core import validation
from taskfree._core.serialization import load_fields, save_fields
from taskfree.when.plateau import Plateau
from taskfree.when.trigger import Decision, Explanation


class RelativePlateau(Plateau):
    """A plateau measured against the height from which the loss came down: no loss scale to set.

    A plateau is a full window whose mean is below `fall` times the height and whose standard
    deviation is below `ripple` times the height. The height is the largest window mean since the
    last peak, or since the start. Peaks are those of `Plateau`.

    Args:
        window: how many losses are judged together.
        fall: the threshold on their mean, as a fraction of the height.
        ripple: the threshold on their standard deviation, as a fraction of the height.

    >>> trigger = RelativePlateau(window=2)
    >>> [trigger.update(100 * loss) for loss in [2.0, 2.0, 1.0, 0.3, 0.3, 0.3]]
    [None, None, None, None, 'plateau', None]
    """

    def __init__(self, window: int = 5, fall: float = 0.2, ripple: float = 0.3) -> None:
        self.fall = validation.number("fall", fall, above=0, hint="0.2: a fifth of the height")
        self.ripple = validation.number("ripple", ripple, above=0, hint="a part of the height")
        self.height = 0.0
        self._start(window)

    def update(self, loss: float) -> Decision | None:
        """Take the loss of one time step and decide."""
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
        explanation = super().explain(decision)
        if "variance" not in explanation.thresholds:
            return explanation
        return explanation._replace(text=f"{explanation.text}; it came down from {self.height:.3g}")

    def state_dict(self) -> dict[str, Tensor]:
        """The state of the window and the height."""
        return super().state_dict() | save_fields(self, ["height"])

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        height = {"height": state["height"]}
        super().load_state_dict(state)
        load_fields(self, ["height"], height)
