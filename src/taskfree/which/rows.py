"""Storage for samples: preallocated rows, chosen by a priority."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor

from taskfree._core import batch, validation
from taskfree._core.batch import Batch
from taskfree._core.serialization import pack, unpack


class Rows(ABC):
    """Samples in preallocated rows: the held ones in front, new ones behind them."""

    def __init__(self, capacity: int) -> None:
        self.capacity = validation.integer("capacity", capacity, least=1)
        self._inputs: Batch | None = None
        self._targets: Batch | None = None
        self._views: tuple[tuple[int, int], list[Batch], tuple[Batch, Batch]] | None = None

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
        """The held samples followed by these new ones. What is held does not change."""
        held, joined = len(self), len(self) + batch.rows(inputs)
        if self._inputs is None or self._targets is None or batch.rows(self._inputs) < joined:
            self._inputs = self._allocate(self._inputs, inputs, joined)
            self._targets = self._allocate(self._targets, targets, joined)
            self._views = None
        if self._views is None or self._views[0] != (held, joined):
            rows = (self._inputs, self._targets)
            behind = [batch.take(part, slice(held, joined)) for part in rows]
            x, y = (batch.take(part, slice(0, joined)) for part in rows)
            self._views = ((held, joined), behind, (x, y))
        _, behind, both = self._views
        for place, new in zip(behind, (inputs, targets), strict=True):
            batch.apply(Tensor.copy_, place, new)
        return both

    def _allocate(self, rows: Batch | None, new: Batch, joined: int) -> Batch:
        """Rows for `capacity` samples and as many new ones, with the held samples in front."""
        held, size = len(self), self.capacity + joined - len(self)
        more = batch.apply(lambda column: column.new_empty(size, *column.shape[1:]), new)
        if rows is not None:
            batch.apply(lambda column, old: column[:held].copy_(old[:held]), more, rows)
        return more

    def _move_to_front(self, keep: Tensor, numbers: list[Tensor]) -> None:
        """Move the rows to keep to the front, each into the place of one that goes."""
        count, goes = len(keep), torch.ones(len(keep), dtype=torch.bool)
        comes = keep[keep >= count]
        if len(comes):
            goes[keep[keep < count]] = False
            places = goes.nonzero().flatten()
            rows = [
                batch.tensors(part) for part in (self._inputs, self._targets) if part is not None
            ]
            for column in (*itertools.chain(*rows), *numbers):
                new = column.index_select(0, comes.to(column.device))
                column.index_copy_(0, places.to(column.device), new)


class PriorityRows(Rows):
    """A buffer that keeps the samples with the highest priority."""

    rescore = False
    balanced = False

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
        """The indices of all joined rows, the best last; of equal ones the newer."""
        return priority.argsort(stable=True)

    def _any_enters(self, priority: list[float]) -> bool:
        """Whether a full buffer takes any of the new samples; mostly it does not."""
        return max(priority[self.capacity :]) >= min(priority[: self.capacity])

    def update(self, losses: Tensor) -> None:
        """Choose among the samples joined last, by their losses in that order."""
        losses = losses.detach().cpu().clone()
        priority = self._priorities(losses, losses.shape[0] - self._held)
        if self._held < self.capacity or self._any_enters(priority.tolist()):
            keep = self._best_last(priority)[-self.capacity :]
            self._move_to_front(keep, [losses] if priority is losses else [losses, priority])
            self._held = len(keep)
        self._all_losses, self._all_priorities = losses, priority

    def state_dict(self) -> dict[str, Tensor]:
        """The held samples, their losses and priorities."""
        if not len(self):
            return pack(None)
        return pack(
            {
                "inputs": self.inputs,
                "targets": self.targets,
                "losses": self.losses,
                "priority": self._priority,
            }
        )

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        held = unpack(state)
        count = 0 if held is None else len(held["losses"])
        if count > self.capacity:
            raise ValueError(
                f"the saved buffer holds {count} samples and this one's capacity is "
                f"{self.capacity}; load it into a buffer of at least that capacity"
            )
        self._inputs = self._targets = self._views = None
        self._held, self._all_losses, self._all_priorities = 0, torch.empty(0), torch.empty(0)
        if held is not None:
            losses, priority = held["losses"].cpu().clone(), held["priority"].cpu().clone()
            self.join(held["inputs"], held["targets"])
            self._held, self._all_losses, self._all_priorities = count, losses, priority
