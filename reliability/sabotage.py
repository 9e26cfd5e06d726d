"""A plugin for pytest that breaks the library, as the environment's BROKEN says: controls."""

from __future__ import annotations

import os
from typing import Any

from taskfree import Hardest, Learner, Plateau, Settled, checkpoint


def buffer() -> None:
    """The hardest buffer keeps the easiest samples."""
    update = Hardest.update
    Hardest.update = lambda self, losses: update(self, -losses)  # type: ignore[method-assign]


def trigger() -> None:
    """A saved trigger forgets its window."""
    for kind in (Plateau, Settled):
        kind.load_state_dict = _without_window(kind.load_state_dict)  # type: ignore


def _without_window(load: Any) -> Any:
    def forgets(self: Any, state: Any) -> None:
        load(self, state)
        self.window = ()

    return forgets


def momentum() -> None:
    """A saved learner forgets its momentum."""
    state_dict = Learner.state_dict

    def forgets(self: Learner) -> Any:
        kept = dict(self.optimizer.state)
        self.optimizer.state.clear()
        state = state_dict(self)
        self.optimizer.state.update(kept)
        return state

    Learner.state_dict = forgets  # type: ignore[method-assign]


def digest() -> None:
    """Checkpoint files are read without being looked at."""
    checkpoint._check_file = lambda file: None


BROKEN = {"digest": digest, "buffer": buffer, "trigger": trigger, "momentum": momentum}
if os.environ.get("BROKEN"):
    BROKEN[os.environ["BROKEN"]]()
