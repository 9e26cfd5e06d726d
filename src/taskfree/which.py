"""WHICH data to keep: a small buffer of samples that are learned again and estimate importance.

A buffer is offered the new samples of every time step with their losses, and the fresh losses of
the samples it holds, and keeps at most `capacity` of them.
"""

from __future__ import annotations

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

    @property
    def inputs(self) -> Batch:
        """The inputs of the samples now held."""

    @property
    def targets(self) -> Batch:
        """Their targets."""

    @property
    def losses(self) -> Tensor:
        """Their losses, as they were last seen."""

    def __len__(self) -> int:
        """How many samples are held."""

    def check(self, inputs: Batch, targets: Batch) -> None:
        """Raise, and change nothing, if such samples cannot be held beside those now held."""

    def update(self, inputs: Batch, targets: Batch, losses: Tensor, held_losses: Tensor) -> None:
        """Offer new samples and their losses, and the fresh losses of the samples now held."""

    def state_dict(self) -> dict[str, Tensor]:
        """The samples held and all that later choices depend on."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""


class _Kept:
    """The samples a buffer keeps; `_choose` says which."""

    rescore = False

    def __init__(self, capacity: int) -> None:
        self.capacity = arguments.whole("capacity", capacity, least=1)
        self._inputs: Batch | None = None
        self._targets: Batch | None = None
        self._losses = torch.empty(0)

    def _choose(self, losses: Tensor, targets: Batch) -> Tensor:
        """The rows to keep, out of the new samples followed by those held; at most `capacity`."""
        raise NotImplementedError

    @property
    def inputs(self) -> Batch:
        """The inputs of the samples now held."""
        return self._held(self._inputs)

    @property
    def targets(self) -> Batch:
        """Their targets."""
        return self._held(self._targets)

    @property
    def losses(self) -> Tensor:
        """Their losses, as they were last seen."""
        return self._losses

    def __len__(self) -> int:
        """How many samples are held."""
        return len(self._losses)

    @staticmethod
    def _held(rows: Batch | None) -> Batch:
        if rows is None:
            raise ValueError("the buffer is empty: it holds samples after the first update")
        return rows

    def check(self, inputs: Batch, targets: Batch) -> None:
        """Raise, and change nothing, if such samples cannot be held beside those now held."""
        for name, new, held in (
            ("inputs", inputs, self._inputs),
            ("targets", targets, self._targets),
        ):
            if held is not None and batch.describe(new) != batch.describe(held):
                raise ValueError(
                    f"{name} of {batch.describe(new)} a sample do not fit the buffer, which holds "
                    f"{batch.describe(held)}; convert or pad them to that, or start a new buffer"
                )

    def update(self, inputs: Batch, targets: Batch, losses: Tensor, held_losses: Tensor) -> None:
        """Offer new samples and their losses, and the fresh losses of the samples now held."""
        losses = losses.detach()
        if len(self):
            losses = torch.cat([losses, held_losses.detach()])
            inputs = batch.join(inputs, self.inputs)
            targets = batch.join(targets, self.targets)
        keep = self._choose(losses, targets)
        kept_inputs, kept_targets = batch.take(inputs, keep), batch.take(targets, keep)
        self._inputs = batch.apply(Tensor.detach, kept_inputs)
        self._targets = batch.apply(Tensor.detach, kept_targets)
        self._losses = losses[keep]

    def state_dict(self) -> dict[str, Tensor]:
        """The samples held."""
        held = {"inputs": self._inputs, "targets": self._targets, "losses": self._losses}
        return pack(held if len(self) else None)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        held = unpack(state) or {"inputs": None, "targets": None, "losses": torch.empty(0)}
        if len(held["losses"]) > self.capacity:
            raise ValueError(
                f"the saved buffer holds {len(held['losses'])} samples and this one's capacity is "
                f"{self.capacity}; load it into a buffer of at least that capacity"
            )

        def copy(rows: Batch | None) -> Batch | None:
            return None if rows is None else batch.apply(Tensor.clone, rows)

        self._inputs, self._targets = copy(held["inputs"]), copy(held["targets"])
        self._losses = held["losses"].clone()


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
    >>> x, y, losses = torch.arange(3.0), torch.zeros(3), torch.tensor([0.1, 0.9, 0.5])
    >>> buffer.update(x, y, losses, buffer.losses)
    >>> buffer.inputs
    tensor([1., 2.])
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

    def _choose(self, losses: Tensor, targets: Batch) -> Tensor:
        hardest_first = losses.argsort(descending=True, stable=True)
        if self.balanced and isinstance(targets, Tensor):
            place = _place_within_label(targets[hardest_first])
            hardest_first = hardest_first[place.argsort(stable=True)]
        return hardest_first[: self.capacity]


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
    >>> buffer.update(torch.arange(5.0), torch.zeros(5), torch.zeros(5), buffer.losses)
    >>> buffer.inputs
    tensor([4., 3.])
    """

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)

    def _choose(self, losses: Tensor, targets: Batch) -> Tensor:
        new = len(losses) - len(self)
        newest_first = torch.arange(new, device=losses.device).flip(0)
        held = torch.arange(new, len(losses), device=losses.device)
        return torch.cat([newest_first, held])[: self.capacity]


class Reservoir(_Kept):
    """A uniform random choice of all samples of the stream so far, whatever its length.

    Every sample draws a random key once and the largest keys stay. The draws come from a
    generator of the buffer's own, so that they neither disturb nor follow the model's.

    >>> buffer = Reservoir(2, seed=1)
    >>> buffer.update(torch.arange(100.0), torch.zeros(100), torch.zeros(100), buffer.losses)
    >>> len(buffer)
    2
    """

    def __init__(self, capacity: int, seed: int = 0) -> None:
        super().__init__(capacity)
        self._generator = torch.Generator().manual_seed(arguments.whole("seed", seed, least=0))
        self._keys = torch.empty(0, dtype=torch.float64)

    def _choose(self, losses: Tensor, targets: Batch) -> Tensor:
        new = len(losses) - len(self)
        drawn = torch.rand(new, dtype=torch.float64, generator=self._generator)
        keys = torch.cat([drawn, self._keys])
        keep = keys.argsort(descending=True, stable=True)[: self.capacity]
        self._keys = keys[keep]
        return keep.to(losses.device)

    def state_dict(self) -> dict[str, Tensor]:
        """The samples held, their keys and the generator."""
        own = {"keys": self._keys, "generator": self._generator.get_state()}
        return super().state_dict() | own

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        keys, generator = state["keys"].clone(), state["generator"].cpu()
        super().load_state_dict(state)
        self._keys = keys
        self._generator.set_state(generator)
