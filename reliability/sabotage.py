"""Ways to break the library on purpose, for controls: tests must notice each of them."""

from __future__ import annotations

from typing import Any

from taskfree import Hardest, Learner, Plateau, Settled
from taskfree.checkpoint import format as file_format


def buffer() -> None:
    """The buffer of the hardest samples keeps the easiest."""
    update = Hardest.update
    Hardest.update = lambda self, losses: update(self, -losses)  # type: ignore[method-assign]


def trigger() -> None:
    """A trigger that is loaded has lost the losses of its window."""
    for kind in (Plateau, Settled):
        kind.load_state_dict = _without_window(kind.load_state_dict)  # type: ignore[attr-defined]


def _without_window(load: Any) -> Any:
    def load_without_window(self: Any, state: Any) -> None:
        load(self, state)
        self.window = ()

    return load_without_window


def momentum() -> None:
    """The state of a learner lacks the optimizer's momentum."""
    state_dict = Learner.state_dict

    def without_momentum(self: Learner) -> Any:
        momentum = dict(self.optimizer.state)
        self.optimizer.state.clear()
        state = state_dict(self)
        self.optimizer.state.update(momentum)
        return state

    Learner.state_dict = without_momentum  # type: ignore[method-assign]


def digest() -> None:
    """Checkpoint files are not checked before they are read."""
    file_format.check = lambda file: None


SABOTAGE = {"digest": digest, "buffer": buffer, "trigger": trigger, "momentum": momentum}
