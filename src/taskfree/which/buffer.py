"""The interface of a buffer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from torch import Tensor

from taskfree._core.batch import Batch, Recalled
from taskfree.which.balance import Balanced


class Buffer(Protocol):
    """What the learner requires of a buffer. `taskfree.checks.check_buffer` tests yours.

    >>> from taskfree import checks, which
    >>> checks.check_buffer(lambda: which.Reservoir(5))
    """

    capacity: int
    """How many samples it holds at most."""
    rescore: bool
    """Whether losses are evaluated again after the last gradient step of a time step."""
    balanced: Balanced
    """Whether samples are chosen by their targets, which must then be one label per sample."""

    @property
    def inputs(self) -> Batch:
        """The inputs of the held samples."""

    @property
    def targets(self) -> Batch:
        """The targets of the held samples."""

    @property
    def losses(self) -> Tensor:
        """Their losses, as last seen, on the CPU."""

    def __len__(self) -> int:
        """How many samples it holds."""

    def check(self, inputs: Batch, targets: Batch) -> None:
        """Raise, and change nothing, if such samples cannot be held beside the present ones."""

    def join(self, inputs: Batch, targets: Batch) -> tuple[Batch, Batch]:
        """Samples to replay, followed by these new ones. What is held does not change."""

    def redraw(self) -> tuple[Batch, Batch]:
        """As many samples to replay, drawn anew, followed by the new ones joined last."""

    def recall(self, time: int) -> Recalled:
        """What is remembered of the model's outputs for the samples replayed last.

        Args:
            time: the number of the gradient step.
        """

    def remember(self, outputs: list[Tensor], time: int) -> None:
        """Remember outputs for the samples replayed last, from the next update on.

        Args:
            outputs: one row per replayed sample.
            time: the number of the gradient step.
        """

    def update(self, losses: Tensor) -> None:
        """Choose among the held samples and the new ones, given the losses of those joined last.

        The losses are in the order in which `join`, or `redraw` after it, returned the samples.
        """

    def state_dict(self) -> dict[str, Tensor]:
        """The held samples and everything that later choices depend on."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
