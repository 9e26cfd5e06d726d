"""Storage for samples: preallocated rows, chosen by a priority."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor

from taskfree._core import batch, validation
from taskfree._core.batch import Batch, Recalled
from taskfree._core.serialization import pack, unpack
from taskfree.which.balance import Balanced

Moves: TypeAlias = tuple[Tensor, Tensor]
"""Rows, and the rows that they are moved to."""
NO_MOVES: Moves = (torch.empty(0, dtype=torch.long),) * 2


class Rows(ABC):
    """Samples in preallocated rows: the held ones in front, new ones behind them."""

    def __init__(self, capacity: int) -> None:
        self.capacity = validation.integer("capacity", capacity, least=1)
        self._inputs: Batch | None = None
        self._targets: Batch | None = None
        self._new = 0
        """How many new samples were joined last."""
        self._drawn: Tensor | None = None
        """The rows replayed last; None if it was all that are held."""
        self._outputs: list[Tensor] | None = None
        self._times = torch.empty(0, dtype=torch.float64)
        """What was remembered of the model's outputs, and in which gradient step; -inf: never."""
        self._pending: tuple[tuple[Tensor | slice, list[Tensor], int], ...] = ()
        """What is to be remembered when the time step has succeeded."""

    @abstractmethod
    def __len__(self) -> int:
        """How many samples are held."""

    @property
    def inputs(self) -> Batch:
        """The inputs of the held samples."""
        return self._rows(self._inputs)

    @property
    def targets(self) -> Batch:
        """The targets of the held samples."""
        return self._rows(self._targets)

    def _rows(self, rows: Batch | None) -> Batch:
        if rows is None or not len(self):
            raise ValueError("the buffer is empty: it holds samples after the first update")
        return batch.take(rows, slice(0, len(self)))

    def check(self, inputs: Batch, targets: Batch) -> None:
        """Raise, and change nothing, if such samples cannot be held beside the present ones."""
        held = (("inputs", inputs, self._inputs), ("targets", targets, self._targets))
        for name, new, rows in held:
            if rows is not None and not batch.same_signature(new, rows):
                raise ValueError(
                    f"{name} of {batch.describe(new)} per sample do not fit the buffer, which "
                    f"holds {batch.describe(rows)}; convert or pad them, or start a new buffer"
                )

    def join(self, inputs: Batch, targets: Batch) -> tuple[Batch, Batch]:
        """Samples to replay, followed by these new ones. What is held does not change."""
        self._pending = ()
        self._append(inputs, targets)
        return self.redraw()

    def redraw(self) -> tuple[Batch, Batch]:
        """Samples to replay, drawn anew, followed by the new ones joined last."""
        self._drawn = self._draw()
        return self._select(self._drawn)

    def recall(self, time: int) -> Recalled:
        """What is remembered of the model's outputs for the samples replayed last."""
        rows = self._replayed_rows()
        here = len(self) if self._drawn is None else len(self._drawn)
        if self._outputs is None:
            return Recalled(here, here)
        outputs = [column[rows] for column in self._outputs]
        return Recalled(here, here, outputs, torch.rsub(self._times[rows], time))

    def remember(self, outputs: list[Tensor], time: int) -> None:
        """Remember outputs for the samples replayed last, from the next update on."""
        self._pending = (*self._pending, (self._replayed_rows(), outputs, time))

    def _replayed_rows(self) -> Tensor | slice:
        return slice(0, len(self)) if self._drawn is None else self._drawn

    def _draw(self) -> Tensor | None:
        """The rows to replay; None for all."""
        return None

    def _append(self, inputs: Batch, targets: Batch) -> None:
        """Put new samples behind the held ones."""
        held, self._new = len(self), batch.rows(inputs)
        joined = held + self._new
        if self._inputs is None or self._targets is None or batch.rows(self._inputs) < joined:
            self._inputs = self._allocate(self._inputs, inputs, joined)
            self._targets = self._allocate(self._targets, targets, joined)
        for rows, new in ((self._inputs, inputs), (self._targets, targets)):
            batch.apply(lambda column, value: column[held:joined].copy_(value), rows, new)
        if self._outputs is not None:
            if len(self._times) < batch.rows(self._inputs):
                self._allocate_outputs(self._outputs)
            self._times[held:joined] = -math.inf  # nothing is remembered of the new ones
            for column in self._outputs:
                column[held:joined] = 0

    def _allocate_outputs(self, like: list[Tensor]) -> None:
        """Rows for the outputs of as many samples; what is remembered in such a shape stays."""
        assert self._inputs is not None
        size, old, times = batch.rows(self._inputs), self._outputs, self._times
        self._outputs = [column.new_zeros(size, *column.shape[1:]) for column in like]
        self._times = torch.full((size,), -math.inf, dtype=torch.float64)
        if old is not None and batch.same_signature(old, like):
            batch.apply(lambda column, value: column[: len(times)].copy_(value), self._outputs, old)
            self._times[: len(times)] = times

    def _remember_pending(self) -> None:
        """Remember the outputs of this time step's gradient steps."""
        for rows, outputs, time in self._pending:
            if self._outputs is None or not batch.same_signature(self._outputs, outputs):
                self._allocate_outputs(outputs)
            assert self._outputs is not None
            for column, value in zip(self._outputs, outputs, strict=True):
                column[rows] = value
            self._times[rows] = time
        self._pending = ()

    def _allocate(self, rows: Batch | None, new: Batch, joined: int) -> Batch:
        """Rows for `capacity` samples and as many new ones, with the held samples in front."""
        held, size = len(self), self.capacity + joined - len(self)
        more = batch.apply(lambda column: column.new_empty(size, *column.shape[1:]), new)
        if rows is not None:
            batch.apply(lambda column, old: column[:held].copy_(old[:held]), more, rows)
        return more

    def _remembered(self) -> dict[str, Any]:
        """What is remembered of the held samples."""
        if self._outputs is None:
            return {}
        held = slice(0, len(self))
        return {"outputs": [c[held] for c in self._outputs], "times": self._times[held]}

    def _clear(self) -> None:
        """Forget all samples."""
        self._inputs = self._targets = self._drawn = self._outputs = None
        self._times, self._pending = self._times[:0], ()

    def _load(self, held: Mapping[str, Any], rows: slice) -> None:
        """Take these of the saved samples into empty rows."""
        self._append(batch.take(held["inputs"], rows), batch.take(held["targets"], rows))
        if "outputs" in held:
            outputs, times = batch.take(held["outputs"], rows), held["times"].cpu()[rows]
            self._allocate_outputs(list(batch.tensors(outputs)))
            assert self._outputs is not None
            batch.apply(lambda c, value: c[: len(times)].copy_(value), self._outputs, outputs)
            self._times[: len(times)] = times

    def _select(self, drawn: Tensor | None) -> tuple[Batch, Batch]:
        """The drawn samples, or all held ones without a copy, followed by the new ones."""
        assert self._inputs is not None
        assert self._targets is not None
        held, joined = len(self), len(self) + self._new
        if drawn is None:
            index: slice | Tensor = slice(0, joined)
        else:
            index = torch.cat([drawn, torch.arange(held, joined)])
        return batch.take(self._inputs, index), batch.take(self._targets, index)

    def _move(self, moves: Moves, numbers: list[Tensor]) -> None:
        """Move samples, and what is known of them in `numbers`, to other rows."""
        comes, places = moves
        if len(comes):
            parts = (self._inputs, self._targets, self._outputs and [*self._outputs, self._times])
            rows = [batch.tensors(part) for part in parts if part is not None]
            for column in (*itertools.chain(*rows), *numbers):
                new = column.index_select(0, comes.to(column.device))
                column.index_copy_(0, places.to(column.device), new)


def to_front(keep: Tensor) -> Moves:
    """Moves that bring the rows to keep to the front, each into the place of one that goes.

    >>> to_front(torch.tensor([0, 3, 2]))
    (tensor([3]), tensor([1]))
    """
    count, goes = len(keep), torch.ones(len(keep), dtype=torch.bool)
    goes[keep[keep < count]] = False
    return keep[keep >= count], goes.nonzero().flatten()


class PriorityRows(Rows):
    """A buffer that keeps the samples with the highest priority."""

    rescore = False
    balanced: Balanced = False

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self._held = 0
        self._all_losses = torch.empty(0)  # of the held samples, then of those let go last
        self._all_priorities = torch.empty(0)

    def __len__(self) -> int:
        """How many samples are held."""
        return self._held

    @property
    def losses(self) -> Tensor:
        """Their losses, as last seen, on the CPU."""
        return self._all_losses[: self._held]

    @property
    def _priority(self) -> Tensor:
        return self._all_priorities[: self._held]

    @abstractmethod
    def _priorities(self, losses: Tensor, new: int) -> Tensor:
        """The priority of each sample, held ones first; the last `new` are new."""

    def _best_last(self, priority: Tensor) -> Tensor:
        """The indices of all held and new rows, the best last; of equal ones the newer."""
        return priority.argsort(stable=True)

    def _choose(self, priority: Tensor) -> Moves:
        """Which rows to move to the front so that those to keep are there."""
        return to_front(self._best_last(priority)[-self.capacity :])

    def update(self, losses: Tensor) -> None:
        """Choose among the held samples and the new ones, given the losses of those joined last."""
        self._remember_pending()
        losses = losses.detach().cpu().clone()
        if self._drawn is not None:  # the others keep the losses that were last seen
            known, count = self.losses.to(losses.dtype, copy=True), len(self._drawn)
            known[self._drawn] = losses[:count]
            losses = torch.cat([known, losses[count:]])
        priority = self._priorities(losses, losses.shape[0] - self._held)
        self._move(self._choose(priority), [losses] if priority is losses else [losses, priority])
        self._held = min(self.capacity, len(losses))
        self._all_losses, self._all_priorities = losses, priority

    def state_dict(self) -> dict[str, Tensor]:
        """The held samples, their losses and priorities."""
        if not len(self):
            return pack(None)
        held = {
            "inputs": self.inputs,
            "targets": self.targets,
            "losses": self.losses,
            "priority": self._priority,
        }
        return pack(held | self._remembered())

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        held = unpack(state)
        count = 0 if held is None else len(held["losses"])
        if count > self.capacity:
            raise ValueError(
                f"the saved buffer holds {count} samples and this one's capacity is "
                f"{self.capacity}; load it into a buffer of at least that capacity"
            )
        self._clear()
        self._held, self._all_losses, self._all_priorities = 0, torch.empty(0), torch.empty(0)
        if held is not None:
            losses, priority = held["losses"].cpu().clone(), held["priority"].cpu().clone()
            self._load(held, slice(0, count))
            self._held, self._all_losses, self._all_priorities = count, losses, priority
