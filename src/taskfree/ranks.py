"""Learning on several processes of `torch.distributed` as if they were one.

Each rank learns from its own shard of the stream. Gradients, losses and importance are added up
over all ranks, so that all take the same decisions at the same step and hold the same parameters.
The buffer is one, chosen from the samples of all ranks; each keeps those that came to it.

What goes wrong on one rank is told to all, and all raise: no rank is left waiting for another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar
from zlib import crc32

import torch
import torch.distributed as dist
from torch import Tensor, nn

from taskfree import batch
from taskfree.batch import Batch
from taskfree.state import pack, unpack
from taskfree.which import Buffer, Rows

__all__ = ["RankError", "Ranks", "Sharded"]

LARGE = 2**18
"""Tensors of as many numbers are added up where they are; smaller ones go together in one copy."""
TOLD = 2000
"""How many bytes of an error's message the other ranks are told."""

Answer = TypeVar("Answer")

_sent: list[Tensor] = []
"""What was sent last. Gloo's threads hold a tensor for a moment longer than its sum takes. Were
they the last to hold it, they would need the interpreter to free it, which aborts a process that is
about to end."""


class RankError(RuntimeError):
    """Another rank failed or is gone. What the call had to do was done on no rank."""


class Ranks:
    """The processes that learn together, and what they tell each other.

    Every method is called by all ranks at the same time.
    """

    def __init__(self, device: torch.device) -> None:
        self.rank, self.size, self.device = dist.get_rank(), dist.get_world_size(), device

    @staticmethod
    def joined(model: nn.Module) -> Ranks | None:
        """The ranks of this process's group; None if it is alone.

        >>> Ranks.joined(nn.Linear(1, 1))
        """
        alone = not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1
        return None if alone else Ranks(next(model.parameters()).device)

    def add_(self, tensors: Iterable[Tensor]) -> None:
        """Add up each of the tensors over all ranks, in place."""
        sent, waiting = [], []
        try:
            small: dict[torch.dtype, list[Tensor]] = {}
            for tensor in tensors:
                if tensor.numel() >= LARGE and tensor.is_contiguous():
                    sent.append(tensor)
                    waiting.append(dist.all_reduce(tensor, async_op=True))
                else:
                    small.setdefault(tensor.dtype, []).append(tensor)
            for group in small.values():
                flat = torch.cat([tensor.reshape(-1) for tensor in group])
                sent.append(flat)
                dist.all_reduce(flat)
                parts = torch.split(flat, [tensor.numel() for tensor in group])
                for tensor, part in zip(group, parts, strict=True):
                    tensor.copy_(part.view(tensor.shape))
            for work in waiting:
                work.wait()
            _sent[:] = sent
        except RuntimeError as error:
            raise RankError(
                f"rank {self.rank} of {self.size} lost contact with the others: a process has "
                "died, hangs or is out of reach; look for its own message, and start the job again "
                f"from its last saved state ({error})"
            ) from error

    def add(self, values: Callable[[], Tensor], places: Tensor, total: int) -> Tensor:
        """What all ranks compute, each at its places of a vector, added up where they meet.

        If the computation raises on one rank, all raise.
        """
        message = torch.zeros(1 + total, dtype=torch.float64, device=self.device)
        failure = None
        try:
            message[1 + places] = values().detach().to(message)
        except Exception as error:
            failure = error
            message[0] = 1
        self.add_([message])
        if int(message[0]):
            self._tell(failure)
        return message[1:]

    def _tell(self, failure: Exception | None) -> None:
        """Raise on every rank, with the messages of those that failed."""
        text = b"" if failure is None else f"{type(failure).__name__}: {failure}".encode()
        padded = text[:TOLD].ljust(TOLD, b"\0")
        told = self.stack(torch.tensor(list(padded), dtype=torch.uint8))
        if failure is not None:
            raise failure
        texts = {r: bytes(row.tolist()).rstrip(b"\0") for r, row in enumerate(told)}
        said = "; ".join(
            f"rank {r} failed: {text.decode(errors='replace')}" for r, text in texts.items() if text
        )
        raise RankError(f"{said} (nothing was done on rank {self.rank} either)")

    def gather(self, value: Callable[[], int]) -> list[int]:
        """A number of each rank."""
        found = self.add(
            lambda: torch.tensor([value()], dtype=torch.float64),
            torch.tensor([self.rank], device=self.device),
            self.size,
        )
        return [int(number) for number in found.tolist()]

    def stack(self, own: Tensor) -> Tensor:
        """A tensor of each rank, in the order of the ranks."""
        every = torch.zeros(self.size, *own.shape, dtype=own.dtype, device=self.device)
        every[self.rank] = own
        self.add_([every])
        return every.to(own.device)

    def do(self, function: Callable[[], Answer]) -> Answer:
        """Call a function; if it raises on one rank, all raise."""
        answers: list[Answer] = []

        def call() -> int:
            answers.append(function())
            return 0

        self.gather(call)
        return answers[0]

    def start_alike(self, tensors: Mapping[str, Tensor]) -> None:
        """Give all ranks rank 0's tensors, as DistributedDataParallel does."""
        said = [(name, str(t.dtype), list(t.shape)) for name, t in tensors.items()]
        prints = self.gather(lambda: crc32(repr(said).encode()))
        if len(set(prints)) > 1:
            others = [rank for rank, value in enumerate(prints) if value != prints[0]]
            raise ValueError(
                f"ranks {others} have another model than rank 0: other names, shapes or dtypes; "
                "make the same one on every rank"
            )
        for tensor in tensors.values():
            dist.broadcast(tensor, 0)

    def differentiate(
        self,
        losses: Callable[[], Tensor],
        places: Tensor,
        total: int,
        parameters: Sequence[Tensor],
        buffers: Sequence[Tensor],
    ) -> Tensor:
        """The losses of all ranks, each at its place; the gradients are added up in place.

        A parameter without a gradient on any rank stays without one. What the pass wrote to the
        model's buffers, such as batch norm's statistics, is averaged.
        """
        before = [buffer.clone() for buffer in buffers]
        dtype = torch.float32

        def values() -> Tensor:
            nonlocal dtype
            own = losses()
            dtype = own.dtype
            if any(p.grad is not None and p.grad.is_sparse for p in parameters):
                raise ValueError("sparse gradients cannot be exchanged: make the layer's dense")
            changed = [p.grad is not None for p in parameters]
            changed += [not torch.equal(*pair) for pair in zip(before, buffers, strict=True)]
            return torch.cat([own.detach().double(), torch.tensor(changed).to(own.device).double()])

        flags = torch.arange(total, total + len(parameters) + len(buffers), device=self.device)
        message = self.add(values, torch.cat([places.to(self.device), flags]), total + len(flags))
        changed = message[total:].tolist()
        gradients: list[Tensor] = []
        for parameter, flag in zip(parameters, changed, strict=False):
            if flag and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            if flag and parameter.grad is not None:
                gradients.append(parameter.grad)
        written = [
            (buffer, old)
            for buffer, old, flag in zip(buffers, before, changed[len(parameters) :], strict=True)
            if flag
        ]
        steps = [(buffer - old) / self.size for buffer, old in written]
        self.add_([*gradients, *steps])
        for (buffer, old), step in zip(written, steps, strict=True):
            buffer.copy_(old + step)
        return message[:total].to(dtype)


class Sharded(Rows):
    """This rank's part of a buffer that all ranks choose together. No sample moves between them.

    Each rank runs the `whole` buffer on stand-ins, the arrival numbers of all ranks' samples, and
    keeps those of its own samples that were chosen. Buffers that choose by loss, by age, by chance
    or by label can be shared so.
    """

    def __init__(self, whole: Buffer, ranks: Ranks) -> None:
        super().__init__(whole.capacity)
        self.whole, self.rescore = whole, whole.rescore
        self.balanced = whole.balanced
        self._ranks = ranks
        self._numbers = torch.empty(0, dtype=torch.long)
        self._joined = self._numbers
        self._arrived = 0
        self.places = self._numbers
        """Where this rank's samples stand among those of all ranks, as joined last."""
        self.total = 0
        """How many samples of all ranks were joined last."""

    def __len__(self) -> int:
        """How many samples are held here."""
        return len(self._numbers)

    @property
    def losses(self) -> Tensor:
        """Their losses, as they were last seen, on the CPU."""
        if not len(self.whole):
            return self.whole.losses
        return self.whole.losses[self._find(self._stand_ins(), self._numbers)]

    def _stand_ins(self) -> Tensor:
        numbers = self.whole.inputs
        assert isinstance(numbers, Tensor)
        return numbers

    def _rows(self, rows: Batch | None) -> Batch:
        if rows is not None:  # there may be none here, and some elsewhere
            return batch.take(rows, slice(0, len(self)))
        return super()._rows(rows)

    @staticmethod
    def _find(among: Tensor, numbers: Tensor) -> Tensor:
        """The places of `numbers` among others, all different."""
        ordered, order = among.sort()
        return order[torch.searchsorted(ordered, numbers)]

    def check(self, inputs: Batch, targets: Batch) -> None:
        """Raise, and change nothing, if such samples cannot be held beside those now held."""
        super().check(inputs, targets)
        if self.balanced and not (isinstance(targets, Tensor) and targets.dim() == 1):
            self.whole.check(inputs, targets)  # which says what is wrong with them

    def join_all(self, inputs: Batch, targets: Batch, counts: list[int]) -> tuple[Batch, Batch]:
        """The samples held here, followed by these new ones; `counts` are the new of each rank."""
        first, new = sum(counts[: self._ranks.rank]), sum(counts)
        own = torch.arange(first, first + batch.rows(inputs))
        labels = torch.zeros(new, dtype=torch.float64)
        if self.balanced and isinstance(targets, Tensor):
            labels = self._ranks.add(lambda: targets, own.to(self._ranks.device), new).cpu()
        numbers, _ = self.whole.join(torch.arange(self._arrived, self._arrived + new), labels)
        assert isinstance(numbers, Tensor)
        self._joined = torch.cat([self._numbers, own + self._arrived])
        self.places, self.total = self._find(numbers, self._joined), len(numbers)
        self._arrived += new
        return self.join(inputs, targets)

    def update(self, losses: Tensor) -> None:
        """Choose among all ranks' samples by their losses, and keep what is chosen of the own."""
        self.whole.update(losses)
        keep = torch.isin(self._joined, self._stand_ins()).nonzero().flatten()
        numbers = self._joined.clone()
        self._move(keep, [numbers])
        self._numbers = numbers[: len(keep)]

    def state_dict(self) -> dict[str, Tensor]:
        """The samples of all ranks, as one process would save them."""
        state = self.whole.state_dict()
        held = unpack(state)
        if held is None:
            return state
        numbers = self._stand_ins()
        places = self._find(numbers, self._numbers)
        held["inputs"] = self._of_all(self._inputs, places, len(numbers))
        held["targets"] = self._of_all(self._targets, places, len(numbers))
        return state | pack(held)

    def _of_all(self, rows: Batch | None, places: Tensor, total: int) -> Batch:
        """The rows of all ranks at their places."""

        def column(own: Tensor) -> Tensor:
            every = own.new_zeros(total, *own.shape[1:])
            every[places.to(own.device)] = own[: len(places)]
            added = every.to(torch.uint8) if own.dtype == torch.bool else every
            self._ranks.add_([added])
            return added.to(own.dtype)

        assert rows is not None  # every rank has joined new samples before any is held
        return batch.apply(column, rows)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from the state of any number of ranks: each takes its share of the samples."""
        held = unpack(state)
        self._inputs = self._targets = self._views = None
        self._numbers = self._joined = torch.empty(0, dtype=torch.long)
        self._arrived = 0
        if held is None:
            self.whole.load_state_dict(state)
            return
        inputs, targets = held["inputs"], held["targets"]
        held["inputs"] = torch.arange(batch.rows(inputs))
        held["targets"] = torch.zeros(batch.rows(inputs), dtype=torch.float64)
        if self.balanced and isinstance(targets, Tensor):
            held["targets"] = targets.cpu().double()
        self.whole.load_state_dict({**state, **pack(held)})
        own = slice(self._ranks.rank, None, self._ranks.size)
        self.join(batch.take(inputs, own), batch.take(targets, own))
        self._numbers = held["inputs"][own].clone()
        self._arrived = batch.rows(inputs)
