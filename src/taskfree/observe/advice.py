"""Warnings about silent failure modes, each given once and with a remedy."""

from __future__ import annotations

import warnings
from collections import deque
from math import inf, sqrt
from statistics import fmean
from typing import Protocol

import torch
from torch import Tensor
from torch.optim import SGD, Optimizer

from taskfree._core.batch import Batch
from taskfree.how import MAS
from taskfree.observe.events import Observed, label_counts
from taskfree.when import At, Decision, Every, Never
from taskfree.which.distributed import DistributedBuffer

__all__ = ["Advice"]

NEVER = 1000
"""Warn of a trigger that has found no plateau in this many time steps."""
PEAKS = 10
"""Warn if this many peaks in a row were each followed by a plateau at once."""
BEGIN, BLOCK, BLOCKS = 5, 100, 5
"""A loss is flat if its mean over the first time steps, and over each of these blocks, equals that
of the last block: within one percent, or within its own noise."""


class Advice(UserWarning):
    """Learning works, but something about it can be better. Each advice is given once per learner.

    >>> import taskfree
    >>> warnings.simplefilter("ignore", taskfree.Advice)  # silences all of it
    """


class Advised(Observed, Protocol):
    """What is looked at of a learner."""

    optimizer: Optimizer


class Adviser:
    """Looks at each time step of one learner, before it changes anything."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._steps = 0
        self._lowest = torch.inf
        self._since_peak: int | None = None
        self._waits: deque[int] = deque(maxlen=PEAKS)
        self._block, self._means = list[float](), list[tuple[float, int]]()
        self._noise = inf
        self._first_label: Tensor | None = None
        self._labels_differ = False
        self._weighed = 0

    def look(self, learner: Advised, decision: Decision | None, loss: float, y: Batch) -> None:
        """Warn of what is wrong, unless it was said before."""
        self._steps += 1
        self._look_at_loss(loss)
        self._look_at_trigger(learner, decision)
        self._look_at_labels(learner, decision, y)
        self._look_at_penalty(learner)

    def _say(self, name: str, text: str) -> None:
        if name not in self._told:
            self._told.add(name)
            warnings.warn(f"{text} (said once)", Advice, stacklevel=8)

    def _look_at_loss(self, loss: float) -> None:
        if self._steps > BLOCK * BLOCKS:
            return
        self._block.append(loss)
        if self._steps == BEGIN:
            self._means.append((fmean(self._block), BEGIN))
        if self._steps % BLOCK:
            return
        self._means.append((fmean(self._block), BLOCK))
        mean = self._means[-1][0]
        self._noise = min(
            self._noise, sqrt(fmean((loss - mean) * (loss - mean) for loss in self._block))
        )
        self._block = []
        now = self._means[-1][0]
        if len(self._means) == BLOCKS + 1 and all(
            abs(mean - now) <= max(0.01 * abs(now), 2.5 * self._noise * sqrt(1 / count + 1 / BLOCK))
            for mean, count in self._means
        ):
            self._say(
                "flat",
                f"the loss is flat from the start: {self._means[1][0]:.3g} in the first {BLOCK} "
                f"time steps and {now:.3g} in the last of {self._steps}. Unless the model was "
                "trained before, it learns nothing: try another learning rate, and check that "
                "inputs are scaled to about 1 and that targets match their inputs",
            )

    def _look_at_trigger(self, learner: Advised, decision: Decision | None) -> None:
        when = learner.when
        if learner.how is None or isinstance(when, Never | Every | At):
            return
        if self._lowest < torch.inf or when.window_mean == when.window_mean:
            self._lowest = min(self._lowest, when.window_mean)
        if self._since_peak is not None:
            self._since_peak += 1
        if decision == "peak":
            self._since_peak = 0
        elif decision == "plateau":
            self._told.add("never")
            if self._since_peak is not None:
                self._waits.append(self._since_peak)
            size = getattr(when, "size", 5)
            if len(self._waits) == PEAKS and max(self._waits) <= size:
                self._say(
                    "always",
                    f"each of the last {PEAKS} peaks was followed by a plateau within {size} time "
                    "steps: consolidating this often keeps the model from learning. Now "
                    f"{when.explain('plateau').text}. Lower the thresholds, or leave `when` out: "
                    "the default trigger needs none",
                )
        if self._steps == NEVER:
            self._say(
                "never",
                f"no plateau in {NEVER} time steps, so nothing has been consolidated: "
                f"{when.explain(None).text}; the lowest window mean was {self._lowest:.3g}. Raise "
                "the thresholds to what the loss can reach, or leave `when` out: the default "
                "trigger needs none",
            )

    def _look_at_labels(self, learner: Advised, decision: Decision | None, y: Batch) -> None:
        which = learner.which
        # A rank holds only a shard of the buffer.
        if which is None or isinstance(which, DistributedBuffer) or "label" in self._told:
            return
        if not isinstance(y, Tensor) or y.dim() != 1:
            return
        if not self._labels_differ:
            if self._first_label is None:
                self._first_label = y[0].clone()
            self._labels_differ = bool((y != self._first_label).any())
        full = len(which) == which.capacity > 1
        if full and self._labels_differ and (decision == "plateau" or self._steps % BLOCK == 0):
            held = label_counts(which.targets)
            if len(held) == 1:
                self._say(
                    "label",
                    f"the buffer holds {len(which)} samples of label {next(iter(held))} and no "
                    "other, although others have come: what was learned about those is neither "
                    "replayed nor protected. Use Hardest(..., balanced=True) or Reservoir",
                )

    def _look_at_penalty(self, learner: Advised) -> None:
        how = learner.how
        if not isinstance(how, MAS) or how.penalty != "gradient":
            return
        if how.consolidations == self._weighed or not isinstance(learner.optimizer, SGD):
            return
        self._weighed = how.consolidations
        rate = max(float(group["lr"]) for group in learner.optimizer.param_groups)
        most = max((float(value.max()) for value in how.importance.values()), default=0.0)
        if rate * how.strength * most > 2:
            self._say(
                "unstable",
                f"the explicit penalty is unstable: lr * strength * the largest importance is "
                f"{rate:.3g} * {how.strength:.3g} * {most:.3g} = {rate * how.strength * most:.3g}, "
                "and above 2 every step overshoots the anchor by more than the distance to it. Use "
                f"penalty='proximal', or a strength below {2 / (rate * most):.3g}",
            )
