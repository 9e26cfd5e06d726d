"""Who answers: the model, its teacher or the mean of both."""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from taskfree._core import batch
from taskfree._core.batch import Batch
from taskfree._core.distributed import Processes
from taskfree._learner.eval_view import EvalView
from taskfree._learner.snapshot import (
    Choice,
    Prepare,
    Snapshot,
    answer,
    choose,
    mean_of,
    prepared,
)
from taskfree.how import Teacher

Steps: TypeAlias = Callable[[], int]
"""Tells how many time steps the learner has taken by now."""
EVERY = 4
"""Time steps between comparisons."""
KEEP = 100
"""For how many time steps snapshots are published after a prediction that needed one."""
DISCOUNT = 0.5
"""The weight of the past in their losses, per comparison."""


class Turns:
    """Learning and predicting from the live parameters take turns. Copies get a lock of their own.

    >>> turns = copy.deepcopy(Turns())
    >>> turns.lock.locked()
    False
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        """Held while the parameters change or are read."""
        self.learning = threading.Lock()
        """Held by the thread that learns or waits to."""
        self.published = threading.Event()
        self.learner: int | None = None
        """That thread."""

    def __reduce__(self) -> tuple[type[Turns], tuple[()]]:
        return Turns, ()


class Serving:
    """Answers with the model, its teacher or their mean, and chooses by their losses.

    The losses are those on new samples, before they are learned. While one thread learns, others
    are answered by the newest snapshot.

    Args:
        model: the model that learns.
        teacher: the one with averaged weights, if there is one.
        processes: the ranks that learn together.
        prepare: what is done to inputs before a model sees them, or None.
    """

    def __init__(
        self,
        model: nn.Module,
        teacher: Teacher | None,
        processes: Processes,
        prepare: Prepare | None = None,
    ) -> None:
        self._model, self._teacher, self._processes = model, teacher, processes
        self._prepare = prepare
        self._view = EvalView(model)
        self._turns = Turns()
        self._wanted = 0
        """For how many more time steps snapshots are published."""
        self._published: Snapshot | None = None
        self.losses: tuple[float, ...] = (0.0, 0.0, 0.0)
        """Discounted losses of teacher, mean and model."""

    @property
    def choice(self) -> Choice:
        """Who answers now."""
        return "model" if self._teacher is None else choose(self.losses)

    def _networks(self) -> list[nn.Module]:
        """Those whose mean output is the answer."""
        choice, found = self.choice, list[nn.Module]()
        if choice != "model" and self._teacher is not None:
            found.append(self._teacher.attach(self._model))
        if choice != "teacher":
            found.append(self._view.refresh())
        return found

    @contextmanager
    def learning(self, step: Steps) -> Iterator[None]:
        """The turn of one thread to learn."""
        turns = self._turns
        if not turns.learning.acquire(blocking=False):
            raise RuntimeError(
                "learn was called while it runs already, in this or another thread; call it from "
                "one thread at a time. predict may be called from any"
            )
        try:
            turns.learner = threading.get_ident()
            with turns.lock:
                yield
                self._publish(step)
        finally:
            turns.learner = None
            turns.learning.release()

    def _publish(self, step: Steps) -> None:
        """Publish a snapshot after every time step while others want it; then keep none."""
        if self._wanted:
            self._published, self._wanted = self._copy(step), self._wanted - 1
            self._turns.published.set()
        elif self._published is not None:  # an old one must not answer later
            self._turns.published.clear()
            self._published = None

    def predict(self, inputs: Batch, step: Steps) -> Any:
        """The answer; in threads other than the one that learns, of the newest snapshot."""
        turns = self._turns
        learner = turns.learner
        if learner == threading.get_ident():  # a model that predicts while it learns
            return answer(self._networks(), prepared(self._prepare, inputs))
        if learner is None and turns.lock.acquire(blocking=False):
            try:
                return answer(self._networks(), prepared(self._prepare, inputs))
            finally:
                turns.lock.release()
        return self._newest(step).predict(inputs)

    def snapshot(self, step: Steps) -> Snapshot:
        """An immutable copy of those that answer now or, while another thread learns, before."""
        turns = self._turns
        if turns.learner is None and turns.lock.acquire(blocking=False):
            try:
                return self._copy(step)
            finally:
                turns.lock.release()
        return self._newest(step)

    def _newest(self, step: Steps) -> Snapshot:
        """The snapshot of the last whole time step; if none was wanted lately, of this one."""
        self._wanted, turns = KEEP, self._turns
        while (published := self._published) is None:
            turns.published.wait(0.01)
            if turns.learner is None and turns.lock.acquire(blocking=False):
                try:
                    return self._copy(step)
                finally:
                    turns.lock.release()
        return published

    def _copy(self, step: Steps) -> Snapshot:
        networks = [copy.deepcopy(network) for network in self._networks()]
        networks = [network.eval().requires_grad_(False) for network in networks]
        return Snapshot(networks, step(), self._prepare)

    def state_dict(self) -> dict[str, Tensor]:
        """The losses that the choice depends on; nothing without a teacher."""
        if self._teacher is None:
            return {}
        return {"losses": torch.tensor(self.losses, dtype=torch.float64)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        if self._teacher is not None:
            self.losses = tuple(state["losses"].tolist())

    def compare(
        self, step: int, inputs: Batch, targets: Batch, loss: Callable[[Any, Any], Tensor]
    ) -> tuple[float, ...]:
        """The losses with those on new samples in them, in some of the time steps."""
        if self._teacher is None or step % EVERY:
            return self.losses
        pair = (self._teacher.attach(self._model), self._view.refresh())
        with torch.no_grad():
            given = prepared(self._prepare, inputs)
            teacher, model = (batch.call(network, given) for network in pair)
            every = (teacher, mean_of(teacher, model), model)
            sums = [loss(outputs, targets).sum().double() for outputs in every]
        counted = torch.stack([*sums, sums[0].new_tensor(batch.rows(inputs))])
        self._processes.sum_([counted])
        *new, count = counted.tolist()
        if not math.isfinite(sum(new)):
            return self.losses
        return tuple(
            DISCOUNT * before + (1 - DISCOUNT) * now / count
            for before, now in zip(self.losses, new, strict=True)
        )
