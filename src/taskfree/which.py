"""WHICH data to keep: a small buffer of samples that are learned again and estimate importance.

At each time step a buffer joins the new samples to those it holds, for one pass over both, and is
then told the losses of all of them: it keeps at most `capacity`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from taskfree import arguments, batch
from taskfree.batch import Batch
from taskfree.state import pack, unpack

__all__ = ["Buffer", "Hardest", "Recent", "Reservoir"]


class Buffer(Protocol):
    """What the learner asks of a buffer. `taskfree.checks.check_buffer` tries yours."""

    capacity: int
    """How many samples are held at most."""
    rescore: bool
    """Whether losses are to be evaluated again after a time step's last gradient step."""
    balanced: bool
    """Whether targets are looked at to choose, which must then be one label a sample."""

    @property
    def inputs(self) -> Batch:
        """The inputs of the samples now held."""

    @property
    def targets(self) -> Batch:
        """Their targets."""

    @property
    def losses(self) -> Tensor:
        """Their losses, as they were last seen, on the CPU."""

    def __len__(self) -> int:
        """How many samples are held."""

    def check(self, inputs: Batch, targets: Batch) -> None:
        """Raise, and change nothing, if such samples cannot be held beside those now held."""

    def join(self, inputs: Batch, targets: Batch) -> tuple[Batch, Batch]:
        """The samples held, followed by these new ones. What is held does not change."""

    def update(self, losses: Tensor) -> None:
        """Choose among the samples joined last by their losses: held ones first, then new ones."""

    def state_dict(self) -> dict[str, Tensor]:
        """The samples held and all that later choices depend on."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""


class Rows:
    """Samples in preallocated rows: those held in front, new ones behind them."""

    def __init__(self, capacity: int) -> None:
        self.capacity = arguments.whole("capacity", capacity, least=1)
        self._inputs: Batch | None = None
        self._targets: Batch | None = None
        self._views: tuple[tuple[int, int], list[Batch], tuple[Batch, Batch]] | None = None

    def __len__(self) -> int:
        """How many samples are held."""
        raise NotImplementedError

    @property
    def inputs(self) -> Batch:
        """The inputs of the samples now held."""
        return self._rows(self._inputs)

    @property
    def targets(self) -> Batch:
        """Their targets."""
        return self._rows(self._targets)

    def _rows(self, rows: Batch | None) -> Batch:
        if rows is None or not len(self):
            raise ValueError("the buffer is empty: it holds samples after the first update")
        return batch.take(rows, slice(0, len(self)))

    def check(self, inputs: Batch, targets: Batch) -> None:
        """Raise, and change nothing, if such samples cannot be held beside those now held."""
        held = (("inputs", inputs, self._inputs), ("targets", targets, self._targets))
        for name, new, rows in held:
            if rows is not None and not batch.same_kind(new, rows):
                raise ValueError(
                    f"{name} of {batch.describe(new)} a sample do not fit the buffer, which holds "
                    f"{batch.describe(rows)}; convert or pad them to that, or start a new buffer"
                )

    def join(self, inputs: Batch, targets: Batch) -> tuple[Batch, Batch]:
        """The samples held, followed by these new ones. What is held does not change."""
        held, joined = len(self), len(self) + batch.rows(inputs)
        if self._inputs is None or self._targets is None or batch.rows(self._inputs) < joined:
            self._inputs = self._room(self._inputs, inputs, joined)
            self._targets = self._room(self._targets, targets, joined)
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

    def _room(self, rows: Batch | None, new: Batch, joined: int) -> Batch:
        """Rows for all that can be held and as many new samples, with those held in front."""
        held, size = len(self), self.capacity + joined - len(self)
        more = batch.apply(lambda column: column.new_empty(size, *column.shape[1:]), new)
        if rows is not None:
            batch.apply(lambda column, old: column[:held].copy_(old[:held]), more, rows)
        return more

    def _move(self, keep: Tensor, numbers: list[Tensor]) -> None:
        """Put the rows to keep in front, each into the place of one that goes."""
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


class _Kept(Rows):
    """A buffer whose samples with the highest priority stay."""

    rescore = False
    balanced = False

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self._held = 0
        self._all_losses = torch.empty(0)  # of those held, and behind them of those let go
        self._all_priorities = torch.empty(0)

    def __len__(self) -> int:
        """How many samples are held."""
        return self._held

    @property
    def losses(self) -> Tensor:
        """Their losses, as they were last seen, on the CPU."""
        return self._all_losses[: self._held]

    @property
    def _priority(self) -> Tensor:
        return self._all_priorities[: self._held]

    def _priorities(self, losses: Tensor, new: int) -> Tensor:
        """The priority of each sample, held ones first; the last `new` are new."""
        raise NotImplementedError

    def _best_last(self, priority: Tensor) -> Tensor:
        """All rows joined, the best last; of equal ones the newer."""
        return priority.argsort(stable=True)

    def _any_enters(self, priority: list[float]) -> bool:
        """Whether a full buffer takes in any of the new samples: mostly it does not."""
        return max(priority[self.capacity :]) >= min(priority[: self.capacity])

    def update(self, losses: Tensor) -> None:
        """Choose among the samples joined last by their losses: held ones first, then new ones."""
        losses = losses.detach().cpu().clone()
        priority = self._priorities(losses, losses.shape[0] - self._held)
        if self._held < self.capacity or self._any_enters(priority.tolist()):
            keep = self._best_last(priority)[-self.capacity :]
            self._move(keep, [losses] if priority is losses else [losses, priority])
            self._held = len(keep)
        self._all_losses, self._all_priorities = losses, priority

    def state_dict(self) -> dict[str, Tensor]:
        """The samples held."""
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


class Hardest(_Kept):
    """The paper's buffer: the samples with the highest losses, among the new and the held ones.

    Of samples with equal losses the newer one is kept.

    Args:
        capacity: how many samples are held at most.
        balanced: share the capacity equally over the labels present, hardest first within each;
            what one label cannot fill goes to the others. Targets must be one label a sample.
        rescore: evaluate all losses again after a time step's last gradient step, as Algorithm 1
            writes it, instead of taking those of the last training pass: one more forward pass.

    >>> buffer = Hardest(2)
    >>> x, y = buffer.join(torch.arange(3.0), torch.zeros(3))
    >>> buffer.update(torch.tensor([0.1, 0.9, 0.5]))
    >>> buffer.inputs, buffer.losses
    (tensor([2., 1.]), tensor([0.5000, 0.9000]))
    """

    def __init__(self, capacity: int, balanced: bool = False, rescore: bool = False) -> None:
        super().__init__(capacity)
        self.balanced = balanced
        self.rescore = rescore

    def check(self, inputs: Batch, targets: Batch) -> None:
        """Raise, and change nothing, if such samples cannot be held beside those now held."""
        if self.balanced and not (isinstance(targets, Tensor) and targets.dim() == 1):
            raise ValueError(
                f"Hardest(balanced=True) needs targets of one label a sample, got "
                f"{batch.describe(targets)}; pass class indices, or balanced=False"
            )
        super().check(inputs, targets)

    def _priorities(self, losses: Tensor, new: int) -> Tensor:
        return losses

    def _any_enters(self, priority: list[float]) -> bool:
        return self.balanced or super()._any_enters(priority)

    def _best_last(self, priority: Tensor) -> Tensor:
        hardest_last = super()._best_last(priority)
        if self.balanced and isinstance(self._targets, Tensor):
            hardest_first = hardest_last.flip(0)
            labels = self._targets[: len(priority)].cpu()[hardest_first]
            place = _place_within_label(labels.int() if labels.dtype == torch.bool else labels)
            return hardest_first[place.argsort(stable=True)].flip(0)
        return hardest_last


def _place_within_label(labels: Tensor) -> Tensor:
    """How many earlier samples have the same label: 0 for the first of each, 1 for the next.

    >>> _place_within_label(torch.tensor([7, 7, 3, 7, 3]))
    tensor([0, 1, 0, 2, 1])
    """
    by_label = labels.argsort(stable=True)
    grouped = labels[by_label]
    first_of_group = torch.searchsorted(grouped, grouped)
    place = torch.empty_like(by_label)
    place[by_label] = torch.arange(len(labels), device=labels.device) - first_of_group
    return place


class Recent(_Kept):
    """The newest samples: first in, first out.

    >>> buffer = Recent(2)
    >>> x, y = buffer.join(torch.arange(5.0), torch.zeros(5))
    >>> buffer.update(torch.zeros(5))
    >>> buffer.inputs
    tensor([3., 4.])
    """

    def _priorities(self, losses: Tensor, new: int) -> Tensor:
        newest = int(self._priority.max()) if len(self) else -1
        numbers = torch.arange(newest + 1, newest + 1 + new)
        return torch.cat([self._priority.long(), numbers]) if len(self) else numbers


class Reservoir(_Kept):
    """A uniform random choice of all samples of the stream so far, whatever its length.

    Every sample draws a random number once and the largest stay. The draws come from a generator
    of the buffer's own, so that they neither disturb nor follow the model's.

    >>> buffer = Reservoir(2, seed=1)
    >>> x, y = buffer.join(torch.arange(100.0), torch.zeros(100))
    >>> buffer.update(torch.zeros(100))
    >>> len(buffer)
    2
    """

    def __init__(self, capacity: int, seed: int = 0) -> None:
        super().__init__(capacity)
        self._generator = (
            torch.Generator().manual_seed(arguments.whole("seed", seed, least=0)).get_state()
        )

    def _priorities(self, losses: Tensor, new: int) -> Tensor:
        generator = torch.Generator()
        generator.set_state(self._generator)
        drawn = torch.rand(new, dtype=torch.float64, generator=generator)
        self._generator = generator.get_state()
        return torch.cat([self._priority, drawn]) if len(self) else drawn

    def state_dict(self) -> dict[str, Tensor]:
        """The samples held, what they drew, and the generator."""
        return super().state_dict() | {"generator": self._generator}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        generator = state["generator"].cpu().clone()
        super().load_state_dict(state)
        self._generator = generator
