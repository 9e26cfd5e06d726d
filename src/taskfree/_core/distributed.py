"""Several processes of `torch.distributed` that learn as one, or a single process.

Each rank learns from its own shard of the stream. Gradients, losses and importance are summed over
all ranks, so all ranks take the same decisions in the same step and hold the same parameters.

`SingleProcess` has the same methods as `ProcessGroup`, so that the learner need not ask which one
it has. An error on one rank is raised on all of them: no rank is left waiting for another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar
from zlib import crc32

import torch
import torch.distributed as dist
from torch import Tensor, nn

from taskfree._core.batch import Batch, rows, take
from taskfree._core.errors import DistributedError

LARGE = 2**18
"""Tensors of at least this many elements are reduced in place; smaller ones share one message."""
MESSAGE = 2000
"""How many bytes of an error's message are sent to the other ranks."""

Answer = TypeVar("Answer")

_sent: list[Tensor] = []
"""The tensors sent last. Gloo's threads hold a tensor a moment longer than its reduction takes. If
they were the last to hold it, they would need the interpreter to free it, which aborts a process
that is about to exit."""


class Joint(NamedTuple):
    """The samples of a gradient step: first those that are replayed, then the new ones."""

    inputs: Batch
    targets: Batch
    replayed_here: int
    """How many samples are replayed on this rank ..."""
    replayed: int
    """... and on all ranks."""
    new: int
    """How many samples are new, on all ranks."""
    buffered: bool
    """Whether they lie in a buffer's rows, so that nothing may write to them."""
    places: Tensor | None = None
    """The positions of this rank's samples among those of all ranks; None for one process."""

    def part(self, rows: slice) -> Joint:
        """Some of the samples on this rank, for a forward pass."""
        return self._replace(inputs=take(self.inputs, rows), targets=take(self.targets, rows))

    @property
    def total(self) -> int:
        """How many samples there are on all ranks."""
        return self.replayed + self.new


class SingleProcess:
    """One process that learns alone."""

    rank, size = 0, 1

    def gather(self, value: Callable[[], int]) -> list[int]:
        """The value of every rank."""
        if _is_distributed():
            raise RuntimeError(
                "a process group was initialised after this learner was made, which does not know "
                "of it; call init_process_group first"
            )
        return [value()]

    def stack(self, own: Tensor) -> Tensor:
        """The tensor of every rank, in rank order."""
        return own[None]

    def call(self, function: Callable[[], Answer]) -> Answer:
        """Call a function; if it raises on one rank, all ranks raise."""
        return function()

    def synchronize(self, tensors: Mapping[str, Tensor]) -> None:
        """Copy the tensors of rank 0 to all ranks."""

    def sum_(self, tensors: Iterable[Tensor]) -> None:
        """Sum each of the tensors over all ranks, in place."""

    def join(self, which: Any, inputs: Batch, targets: Batch, counts: list[int]) -> Joint:
        """Samples to replay and the new ones, of which there are `counts` on each rank."""
        x, y = (inputs, targets) if which is None else which.join(inputs, targets)
        replayed = rows(x) - counts[0]
        return Joint(x, y, replayed, replayed, counts[0], which is not None)

    def redraw(self, which: Any, joint: Joint) -> Joint:
        """Other samples to replay and the same new ones."""
        if which is None:
            return joint
        x, y = which.redraw()
        return joint._replace(inputs=x, targets=y)

    def evaluate(self, losses: Callable[[], Tensor], joint: Joint) -> Tensor:
        """The losses of the samples of all ranks."""
        del joint
        return losses()

    def differentiate(
        self,
        losses: Callable[[], Tensor],
        joint: Joint,
        parameters: Sequence[Tensor],
        find_buffers: Callable[[], list[Tensor]],
    ) -> Tensor:
        """The losses of all ranks, with the gradients summed over the ranks."""
        del joint, parameters, find_buffers
        return losses()


class ProcessGroup:
    """The processes that learn together. Every method is called by all ranks at the same time."""

    def __init__(self, device: torch.device) -> None:
        self.rank, self.size, self.device = dist.get_rank(), dist.get_world_size(), device

    def gather(self, value: Callable[[], int]) -> list[int]:
        """The value of every rank."""
        found = self._scatter(
            lambda: torch.tensor([value()], dtype=torch.float64),
            torch.tensor([self.rank], device=self.device),
            self.size,
        )
        return [int(number) for number in found.tolist()]

    def stack(self, own: Tensor) -> Tensor:
        """The tensor of every rank, in rank order."""
        every = torch.zeros(self.size, *own.shape, dtype=own.dtype, device=self.device)
        every[self.rank] = own
        self.sum_([every])
        return every.to(own.device)

    def call(self, function: Callable[[], Answer]) -> Answer:
        """Call a function; if it raises on one rank, all ranks raise."""
        answers: list[Answer] = []

        def count() -> int:
            answers.append(function())
            return 0

        self.gather(count)
        return answers[0]

    def synchronize(self, tensors: Mapping[str, Tensor]) -> None:
        """Copy the tensors of rank 0 to all ranks, as DistributedDataParallel does."""
        signature = [(name, str(t.dtype), list(t.shape)) for name, t in tensors.items()]
        found = self.gather(lambda: crc32(repr(signature).encode()))
        if len(set(found)) > 1:
            others = [rank for rank, value in enumerate(found) if value != found[0]]
            raise ValueError(
                f"ranks {others} have another model than rank 0: other names, shapes or dtypes; "
                "make the same one on every rank"
            )
        for tensor in tensors.values():
            dist.broadcast(tensor, 0)

    def sum_(self, tensors: Iterable[Tensor]) -> None:
        """Sum each of the tensors over all ranks, in place."""
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
                pieces = torch.split(flat, [tensor.numel() for tensor in group])
                for tensor, piece in zip(group, pieces, strict=True):
                    tensor.copy_(piece.view(tensor.shape))
            for work in waiting:
                work.wait()
            _sent[:] = sent
        except RuntimeError as error:
            raise DistributedError(
                f"rank {self.rank} of {self.size} lost contact with the others: a process has "
                "died, hangs or is unreachable; look for its own message, and restart the job "
                f"from its last checkpoint ({error})"
            ) from error

    def join(self, which: Any, inputs: Batch, targets: Batch, counts: list[int]) -> Joint:
        """Samples to replay and the new ones, of which there are `counts` on each rank."""
        if which is not None:
            x, y = which.join_shard(inputs, targets, counts)
            here = rows(x) - counts[self.rank]
            total = which.replayed_everywhere
            return Joint(x, y, here, total, sum(counts), True, which.places)
        first = sum(counts[: self.rank])
        places = torch.arange(first, first + counts[self.rank])
        return Joint(inputs, targets, 0, 0, sum(counts), False, places)

    def redraw(self, which: Any, joint: Joint) -> Joint:
        """Other samples to replay and the same new ones."""
        if which is None:
            return joint
        x, y = which.redraw()
        here = rows(x) - rows(joint.inputs) + joint.replayed_here
        return joint._replace(inputs=x, targets=y, replayed_here=here, places=which.places)

    def evaluate(self, losses: Callable[[], Tensor], joint: Joint) -> Tensor:
        """The losses of the samples of all ranks."""
        assert joint.places is not None
        return self._scatter(losses, joint.places.to(self.device), joint.total)

    def labels(self, own: Tensor, places: Tensor, total: int) -> Tensor:
        """The labels of the samples of all ranks."""
        return self._scatter(lambda: own, places.to(self.device), total).cpu()

    def differentiate(
        self,
        losses: Callable[[], Tensor],
        joint: Joint,
        parameters: Sequence[Tensor],
        find_buffers: Callable[[], list[Tensor]],
    ) -> Tensor:
        """The losses of all ranks, with the gradients summed over the ranks.

        A parameter without a gradient on any rank stays without one. What the forward pass wrote
        to the model's buffers, such as the statistics of batch norm, is averaged.
        """
        buffers = find_buffers()
        before = [buffer.clone() for buffer in buffers]
        dtype, total = torch.float32, joint.total

        def values() -> Tensor:
            nonlocal dtype
            own = losses()
            dtype = own.dtype
            if any(p.grad is not None and p.grad.is_sparse for p in parameters):
                raise ValueError("sparse gradients cannot be exchanged: make the layer's dense")
            changed = [p.grad is not None for p in parameters]
            changed += [not torch.equal(*pair) for pair in zip(before, buffers, strict=True)]
            return torch.cat([own.detach().double(), torch.tensor(changed).to(own.device).double()])

        assert joint.places is not None
        flags = torch.arange(total, total + len(parameters) + len(buffers), device=self.device)
        places = torch.cat([joint.places.to(self.device), flags])
        message = self._scatter(values, places, total + len(flags))
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
        self.sum_([*gradients, *steps])
        for (buffer, old), step in zip(written, steps, strict=True):
            buffer.copy_(old + step)
        return message[:total].to(dtype)

    def _scatter(self, values: Callable[[], Tensor], places: Tensor, total: int) -> Tensor:
        """A vector of `total` values to which each rank contributes those at its `places`.

        Values at the same place are summed. If the computation raises on one rank, all raise.
        """
        message = torch.zeros(1 + total, dtype=torch.float64, device=self.device)
        failure = None
        try:
            message[1 + places] = values().detach().to(message)
        except Exception as error:
            failure = error
            message[0] = 1
        self.sum_([message])
        if int(message[0]):
            self._raise_everywhere(failure)
        return message[1:]

    def _raise_everywhere(self, failure: Exception | None) -> None:
        """Raise on every rank, with the messages of the ranks that failed."""
        text = b"" if failure is None else f"{type(failure).__name__}: {failure}".encode()
        padded = text[:MESSAGE].ljust(MESSAGE, b"\0")
        sent = self.stack(torch.tensor(list(padded), dtype=torch.uint8))
        if failure is not None:
            raise failure
        texts = {rank: bytes(row.tolist()).rstrip(b"\0") for rank, row in enumerate(sent)}
        failed = "; ".join(
            f"rank {rank} failed: {text.decode(errors='replace')}"
            for rank, text in texts.items()
            if text
        )
        raise DistributedError(f"{failed} (nothing was done on rank {self.rank} either)")


Processes: TypeAlias = SingleProcess | ProcessGroup


def process_group(model: nn.Module) -> Processes:
    """The processes that this one learns with: its `torch.distributed` group, or none.

    >>> process_group(nn.Linear(1, 1)).size
    1
    """
    if _is_distributed():
        return ProcessGroup(next(model.parameters()).device)
    return SingleProcess()


def _is_distributed() -> bool:
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
