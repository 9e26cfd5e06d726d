"""Watching a method learn a stream: what it says before it learns, and what it knows by then."""

from __future__ import annotations

from collections.abc import Callable
from statistics import mean
from time import perf_counter
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from taskfree.paper.streams.changing import ChangingStream

Predict: TypeAlias = Callable[[Tensor], Tensor]
EVERY = 100
"""Time steps between evaluations."""


class Watcher:
    """Watches a method learn a stream. Call `before` in front of each time step.

    Args:
        stream: what is learned.

    >>> from taskfree.paper.streams import points
    >>> stream = points.quadrants(0, steps=3)
    >>> watcher = Watcher(stream)
    >>> for step in range(len(stream.batches)):
    ...     watcher.before(step, lambda x: torch.eye(2)[torch.zeros(len(x)).long()])
    >>> watcher.finish(lambda x: torch.eye(2)[torch.zeros(len(x)).long()])["final"]
    0.5
    """

    def __init__(self, stream: ChangingStream) -> None:
        self._stream = stream
        self._said: list[Tensor] = []
        self._scores: list[float] = []
        self._best: dict[int, float] = {}
        self._watched = 0.0
        self._started = perf_counter()
        self._counting = True
        self._samples = 0

        def count(module: nn.Module, inputs: Any) -> None:  # copies of the model count here too
            del module
            if self._counting:
                self._samples += len(inputs[0])

        stream.model.register_forward_pre_hook(count)

    @torch.no_grad()
    def before(self, step: int, predict: Predict) -> None:
        """Ask for predictions of a time step's batch; every so often, evaluate what is known."""
        started, self._counting = perf_counter(), False
        stream = self._stream
        if step:
            self._said.append(predict(stream.batches[step][0]))
        if step and step % EVERY == 0:
            self._scores.append(mean(self._evaluate(stream.environments[:step], predict)))
        self._counting = True
        self._watched += perf_counter() - started

    def _evaluate(self, environments: list[int], predict: Predict) -> list[float]:
        """The score of every environment that has come so far."""
        known = sorted(set(environments))
        tests = self._stream.tests
        found = [self._stream.score(predict(tests[e][0]), tests[e][1]) for e in known]
        for environment, score in zip(known, found, strict=True):
            self._best[environment] = max(self._best.get(environment, 0.0), score)
        return found

    @torch.no_grad()
    def finish(self, predict: Predict) -> dict[str, float]:
        """What was measured, after the last time step."""
        seconds = perf_counter() - self._started - self._watched
        self._counting = False
        stream = self._stream
        final = self._evaluate(stream.environments, predict)
        targets = torch.cat([y for _, y in stream.batches[1:]])
        lost = [self._best[e] - score for e, score in enumerate(final)]
        return {
            "final": round(mean(final), 4),
            "average": round(mean([*self._scores, mean(final)]), 4),
            "running": round(stream.score(torch.cat(self._said), targets), 4),
            "forgetting": round(mean(lost), 4),
            "samples per step": round(self._samples / len(stream.batches), 1),
            "seconds": round(seconds, 2),
        }
