"""Algorithm 1 as hooks for a training loop that another library runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from taskfree import defaults
from taskfree._core import batch, validation
from taskfree._core.batch import Batch
from taskfree._core.model import evaluating
from taskfree._core.serialization import add_prefix, take_prefix
from taskfree._learner.objective import per_sample
from taskfree.defaults import STRENGTH, Auto
from taskfree.how import MAS, Regularizer
from taskfree.when import Decision, Trigger
from taskfree.which import Buffer, Hardest, Recent, Reservoir

__all__ = ["Consolidator"]


class Consolidator:
    """Three calls per step: `after_backward`, `before_step` and `after_step` of the optimizer.

    Args:
        loss: a function of outputs and targets that returns one value per sample. Without it no
            sample is replayed: the buffer only serves to estimate importance.
        when: the trigger; None never consolidates. Default: `Settled()`.
        which: the buffer; None keeps no samples, and importance is estimated on the new ones.
            Default: `Reservoir(60, balanced="auto")`, or `Recent(100)` without `loss`. All its
            samples are replayed in every step.
        how: the regularizer; None protects nothing. Default: `MAS(0.01, penalty="relative")`.

    >>> model = nn.Linear(2, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> keep = Consolidator(nn.CrossEntropyLoss(reduction="none"))
    >>> for _ in range(100):
    ...     x = torch.randn(8, 2)
    ...     y = (x[:, 0] > 0).long()
    ...     loss = nn.functional.cross_entropy(model(x), y)
    ...     loss.backward()
    ...     keep.after_backward(model)
    ...     keep.before_step(model)
    ...     optimizer.step()
    ...     optimizer.zero_grad()
    ...     decision = keep.after_step(model, [optimizer], x, y, loss.item())
    >>> len(keep.which)
    60
    """

    def __init__(
        self,
        loss: Callable[[Any, Any], Tensor] | None = None,
        *,
        when: Trigger | Auto | None = "auto",
        which: Buffer | Auto | None = "auto",
        how: Regularizer | Auto | None = "auto",
    ) -> None:
        validation.components({"when": when, "which": which, "how": how})
        if loss is not None:
            validation.per_sample(loss)
        elif isinstance(which, Hardest):
            raise ValueError(
                "which=Hardest(...) needs the loss of every sample: pass loss, made with "
                "reduction='none', or which=Recent(...) or Reservoir(...)"
            )
        self.loss = loss
        self.when = defaults.trigger(when)
        self.which = _buffer(loss) if which == "auto" else which
        self.how = MAS(STRENGTH, penalty="relative") if how == "auto" else how
        self.consolidations = 0
        self._buffer_loss = 0.0

    def after_backward(self, model: nn.Module, share: float = 1.0) -> None:
        """Add the gradients of the buffer's mean loss.

        Args:
            model: the model that learns.
            share: the weight of this batch, if gradients are accumulated over several batches.
        """
        self._buffer_loss = 0.0
        if self.loss is not None and self.which is not None and len(self.which):
            held = self._losses(model, self.which.inputs, self.which.targets).mean()
            (share * held).backward()  # type: ignore[no-untyped-call]  # torch
            self._buffer_loss = held.item()

    def before_step(self, model: nn.Module) -> None:
        """Add the gradients of the penalty, if it has any."""
        if self.how is not None:
            self.how.after_backward(model)

    def after_step(
        self,
        model: nn.Module,
        optimizers: Iterable[Optimizer],
        inputs: Batch,
        targets: Batch | None,
        loss: float,
    ) -> Decision | None:
        """Take the proximal step, consolidate at a plateau, and update the buffer.

        Args:
            model: the model that learns.
            optimizers: those that have stepped.
            inputs: of the new samples.
            targets: of the new samples; not needed without a loss.
            loss: their mean loss, before the step.
        """
        for optimizer in optimizers:
            if self.how is not None:
                self.how.after_step(model, optimizer)
        decision = self.when.update(loss + self._buffer_loss)
        if decision == "plateau" and self.how is not None:
            known = self.which.inputs if self.which is not None and len(self.which) else inputs
            self.how.consolidate(model, known)
            self.consolidations += 1
        if self.which is not None:
            self._update_buffer(self.which, model, batch.detach(inputs), targets)
        return decision

    @torch.no_grad()
    def _update_buffer(
        self, which: Buffer, model: nn.Module, x: Batch, targets: Batch | None
    ) -> None:
        """Update the buffer with the new samples whose loss is finite."""
        if self.loss is None:
            joined, _ = which.join(x, torch.zeros(batch.rows(x)))
            which.update(torch.zeros(batch.rows(joined)))
            return
        if targets is None:
            raise ValueError(
                "there is a loss, but the batch has no targets to replay its samples with; say "
                "how a batch is unpacked, or leave out loss"
            )
        y = batch.detach(targets)
        which.check(x, y)
        with evaluating(model):
            new = self._losses(model, x, y)
            good = new.isfinite()
            if not good.any():
                return
            x, y = which.join(batch.take(x, good), batch.take(y, good))
            which.update(self._losses(model, x, y))

    def _losses(self, model: nn.Module, x: Batch, y: Batch) -> Tensor:
        assert self.loss is not None
        outputs = batch.call(model, x)
        return per_sample(self.loss(outputs, y), outputs, y, batch.rows(x))

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that later steps depend on."""
        state = {"consolidations": torch.tensor(self.consolidations)}
        for name, component in self._parts().items():
            state |= add_prefix(name, component.state_dict())
        return state

    def load_state_dict(
        self, state: Mapping[str, Tensor], device: torch.device | None = None
    ) -> None:
        """Continue from a saved state, on the device that the model is on."""
        moved = {name: value.to(device) for name, value in state.items()}
        for name, component in self._parts().items():
            component.load_state_dict(take_prefix(name, moved))
        self.consolidations = int(state["consolidations"])

    def _parts(self) -> dict[str, Any]:
        parts = {"when": self.when, "which": self.which, "how": self.how}
        return {name: component for name, component in parts.items() if component is not None}


def _buffer(loss: object) -> Buffer:
    """The default: all samples are replayed in every step, so it is small."""
    return Recent(100) if loss is None else Reservoir(60, balanced="auto")
