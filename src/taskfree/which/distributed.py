"""A buffer that several processes share."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from taskfree._core import batch
from taskfree._core.batch import Batch, Recalled
from taskfree._core.distributed import Processes, ProcessGroup
from taskfree._core.serialization import pack, unpack
from taskfree.which.balance import are_labels
from taskfree.which.buffer import Buffer
from taskfree.which.rows import Rows, to_front


def distribute(buffer: Buffer | None, processes: Processes) -> Buffer | None:
    """The buffer itself for one process; this rank's shard of it for several.

    >>> from taskfree._core.distributed import SingleProcess
    >>> distribute(None, SingleProcess()) is None
    True
    """
    if buffer is None or not isinstance(processes, ProcessGroup):
        return buffer
    return DistributedBuffer(buffer, processes)


class DistributedBuffer(Rows):
    """One rank's shard of a buffer that all ranks choose together. Samples stay on their rank.

    Each rank runs the `whole` buffer on stand-ins, the arrival numbers of all ranks' samples, and
    keeps those of its own samples that were chosen. This works for buffers that choose by loss, by
    age, at random or by label.
    """

    def __init__(self, whole: Buffer, processes: ProcessGroup) -> None:
        super().__init__(whole.capacity)
        self.whole, self.rescore = whole, whole.rescore
        self.balanced = whole.balanced
        self._processes = processes
        self._numbers = torch.empty(0, dtype=torch.long)
        self._joined = self._numbers
        self._arrived = 0
        self.places = self._numbers
        """The positions of this rank's samples among those of all ranks, as joined last."""
        self.replayed_everywhere = 0
        """How many samples all ranks replay together."""

    def __len__(self) -> int:
        """How many samples are held on this rank."""
        return len(self._numbers)

    @property
    def losses(self) -> Tensor:
        """Their losses, as last seen, on the CPU."""
        if not len(self.whole):
            return self.whole.losses
        return self.whole.losses[self._find(self._stand_ins(), self._numbers)]

    def _stand_ins(self) -> Tensor:
        numbers = self.whole.inputs
        assert isinstance(numbers, Tensor)
        return numbers

    def _rows(self, rows: Batch | None) -> Batch:
        if rows is not None:  # this rank may hold none while others do
            return batch.take(rows, slice(0, len(self)))
        return super()._rows(rows)

    @staticmethod
    def _find(among: Tensor, numbers: Tensor) -> Tensor:
        """The positions of `numbers` in a tensor of distinct numbers."""
        ordered, order = among.sort()
        return order[torch.searchsorted(ordered, numbers)]

    def check(self, inputs: Batch, targets: Batch) -> None:
        """Raise, and change nothing, if such samples cannot be held beside the present ones."""
        super().check(inputs, targets)
        if self.balanced is True and not (isinstance(targets, Tensor) and targets.dim() == 1):
            self.whole.check(inputs, targets)  # which says what is wrong with them

    def join_shard(self, inputs: Batch, targets: Batch, counts: list[int]) -> tuple[Batch, Batch]:
        """The samples held here and these new ones; `counts` are the new ones of each rank."""
        first, new = sum(counts[: self._processes.rank]), sum(counts)
        own = torch.arange(first, first + batch.rows(inputs))
        labels = self._labels(targets, lambda here: self._processes.labels(here, own, new), new)
        numbers, _ = self.whole.join(torch.arange(self._arrived, self._arrived + new), labels)
        self.replayed_everywhere = batch.rows(numbers) - new
        self._joined = torch.cat([self._numbers, own + self._arrived])
        self._arrived += new
        self._pending = ()
        self._append(inputs, targets)
        return self._select_own(numbers)

    def _labels(self, targets: Batch, gather: Callable[[Tensor], Tensor], count: int) -> Tensor:
        """The targets of the stand-ins: labels, if samples are chosen by them."""
        labels = are_labels(targets)
        if isinstance(targets, Tensor) and (self.balanced is True or (self.balanced and labels)):
            return gather(targets).to(torch.long if labels else torch.float64)
        return torch.zeros(count, dtype=torch.float64)

    def redraw(self) -> tuple[Batch, Batch]:
        """This rank's samples among those drawn anew, and its new ones."""
        return self._select_own(self.whole.redraw()[0])

    def _select_own(self, numbers: Batch) -> tuple[Batch, Batch]:
        """Of the samples with these arrival numbers, those that are held here or new here."""
        assert isinstance(numbers, Tensor)
        here = torch.isin(self._numbers, numbers).nonzero().flatten()
        own = torch.cat([self._numbers[here], self._joined[len(self) :]])
        self.places = self._find(numbers, own)
        self._drawn = None if len(here) == len(self) else here
        return self._select(self._drawn)

    def recall(self, time: int) -> Recalled:
        """What is remembered of the model's outputs for the samples replayed last."""
        return super().recall(time)._replace(total=self.replayed_everywhere)

    def update(self, losses: Tensor) -> None:
        """Choose among the samples of all ranks by their losses; keep what is this rank's."""
        self._remember_pending()
        self.whole.update(losses)
        keep = torch.isin(self._joined, self._stand_ins()).nonzero().flatten()
        numbers = self._joined.clone()
        self._move(to_front(keep), [numbers])
        self._numbers = numbers[: len(keep)]

    def state_dict(self) -> dict[str, Tensor]:
        """The samples of all ranks, as one process would save them."""
        state = self.whole.state_dict()
        held = unpack(state)
        if held is None:
            return state
        numbers = self._stand_ins()
        places = self._find(numbers, self._numbers)
        held["inputs"] = self._gathered(self._inputs, places, len(numbers))
        held["targets"] = self._gathered(self._targets, places, len(numbers))
        if self._outputs is not None:
            every = self._gathered([*self._outputs, self._times], places, len(numbers))
            *held["outputs"], held["times"] = batch.tensors(every)
        return state | pack(held)

    def _gathered(self, rows: Batch | None, places: Tensor, total: int) -> Batch:
        """The rows of all ranks at their places."""

        def column(own: Tensor) -> Tensor:
            every = own.new_zeros(total, *own.shape[1:])
            every[places.to(own.device)] = own[: len(places)]
            summed = every.to(torch.uint8) if own.dtype == torch.bool else every
            self._processes.sum_([summed])
            return summed.to(own.dtype)

        assert rows is not None  # every rank has joined new samples before any is held
        return batch.apply(column, rows)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from the state of any number of ranks: each takes its share of the samples."""
        held = unpack(state)
        self._clear()
        self._numbers = self._joined = torch.empty(0, dtype=torch.long)
        self._arrived = 0
        if held is None:
            self.whole.load_state_dict(state)
            return
        numbers, targets = torch.arange(batch.rows(held["inputs"])), held["targets"]
        labels = self._labels(targets, Tensor.cpu, len(numbers))
        stand_ins = {name: held[name] for name in ("losses", "priority")}
        stand_ins |= {"inputs": numbers, "targets": labels}
        self.whole.load_state_dict({**state, **pack(stand_ins)})
        own = slice(self._processes.rank, None, self._processes.size)
        self._load(held, own)
        self._numbers = numbers[own].clone()
        self._arrived = len(numbers)
