"""Algorithm 1 beside a training loop that another library runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import EllipsisType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from taskfree import arguments, batch
from taskfree.batch import Batch
from taskfree.how import MAS, Importance
from taskfree.importance import evaluating
from taskfree.state import nest, part
from taskfree.when import Decision, Never, Settled, Trigger
from taskfree.which import Buffer, Hardest, Recent

__all__ = ["Consolidator"]


class Consolidator:
    """Three calls a step: `after_backward`, `before_step` and `after_step` of the optimizer.

    Args:
        loss: a function of outputs and targets that returns one value a sample. Without it no
            sample is learned again: the buffer only estimates importance.
        when: the trigger; None never consolidates. One that needs no thresholds if not said.
        which: the buffer; None keeps no samples, and importance is estimated on the new ones. The
            30 hardest samples if not said, or without `loss` the 100 newest.
        how: the way to keep knowledge; None keeps none. MAS with a strength that has no units if
            not said.

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
    30
    """

    def __init__(
        self,
        loss: Callable[[Any, Any], Tensor] | None = None,
        *,
        when: Trigger | EllipsisType | None = ...,
        which: Buffer | EllipsisType | None = ...,
        how: Importance | EllipsisType | None = ...,
    ) -> None:
        arguments.components({"when": when, "which": which, "how": how})
        if loss is not None:
            arguments.per_sample(loss)
        elif isinstance(which, Hardest):
            raise ValueError(
                "which=Hardest(...) needs the loss of every sample: pass loss, one that is made "
                "with reduction='none', or which=Recent(...) or Reservoir(...)"
            )
        if which is ...:
            which = Recent(100) if loss is None else Hardest(30)
        self.loss = loss
        self.when: Trigger = Settled() if when is ... else Never() if when is None else when
        self.which: Buffer | None = which
        self.how: Importance | None = MAS(0.01, penalty="relative") if how is ... else how
        self.consolidations = 0
        self._held_loss = 0.0

    def after_backward(self, model: nn.Module, share: float = 1.0) -> None:
        """Add the gradients of the buffer's mean loss.

        Args:
            model: the one that learns.
            share: of all that comes before the optimizer's next step, if gradients are gathered
                over several batches.
        """
        self._held_loss = 0.0
        if self.loss is not None and self.which is not None and len(self.which):
            held = self._losses(model, self.which.inputs, self.which.targets).mean()
            (share * held).backward()  # type: ignore[no-untyped-call]
            self._held_loss = held.item()

    def before_step(self, model: nn.Module) -> None:
        """Add the gradients of the penalty, if it has any."""
        if self.how is not None:
            self.how.add_gradients(model)

    def after_step(
        self,
        model: nn.Module,
        optimizers: Iterable[Optimizer],
        inputs: Batch,
        targets: Batch | None,
        loss: float,
    ) -> Decision | None:
        """Pull back what matters, choose what to keep, and consolidate if it is time.

        Args:
            model: the one that learns.
            optimizers: those that have stepped.
            inputs: of the new samples.
            targets: of the new samples; not needed without a loss.
            loss: their mean loss, before the step.
        """
        for optimizer in optimizers:
            if self.how is not None:
                self.how.pull_back(model, optimizer)
        decision = self.when.update(loss + self._held_loss)
        if decision == "plateau" and self.how is not None:
            known = self.which.inputs if self.which is not None and len(self.which) else inputs
            self.how.consolidate(model, known)
            self.consolidations += 1
        if self.which is not None:
            self._choose(self.which, model, batch.without_graph(inputs), targets)
        return decision

    @torch.no_grad()
    def _choose(self, which: Buffer, model: nn.Module, x: Batch, targets: Batch | None) -> None:
        """Have the buffer choose among what it holds and the new samples whose loss is finite."""
        if self.loss is None:
            which.join(x, torch.zeros(batch.rows(x)))
            which.update(torch.zeros(len(which) + batch.rows(x)))
            return
        if targets is None:
            raise ValueError(
                "there is a loss, but the batch has no targets to learn its samples again by; say "
                "how a batch is taken apart, or leave out loss"
            )
        y = batch.without_graph(targets)
        which.check(x, y)
        with evaluating(model):
            new = self._losses(model, x, y)
            good = new.isfinite()
            if not good.any():
                return
            which.join(batch.take(x, good), batch.take(y, good))
            held = self._losses(model, which.inputs, which.targets) if len(which) else new[:0]
        which.update(torch.cat([held, new[good]]))

    def _losses(self, model: nn.Module, x: Batch, y: Batch) -> Tensor:
        assert self.loss is not None
        losses = self.loss(batch.call(model, x), y)
        if losses.shape != (batch.rows(x),):
            raise ValueError(
                f"loss must return one value a sample, shape [{batch.rows(x)}], got "
                f"{list(losses.shape)}; make it with reduction='none' and take the mean over all "
                "but the first dimension"
            )
        return losses

    def state_dict(self) -> dict[str, Tensor]:
        """All that later steps depend on."""
        state = {"consolidations": torch.tensor(self.consolidations)}
        for name, component in self._parts().items():
            state |= nest(name, component.state_dict())
        return state

    def load_state_dict(
        self, state: Mapping[str, Tensor], device: torch.device | None = None
    ) -> None:
        """Continue from a saved state, on the device that the model is on."""
        moved = {name: value.to(device) for name, value in state.items()}
        for name, component in self._parts().items():
            component.load_state_dict(part(name, moved))
        self.consolidations = int(state["consolidations"])

    def _parts(self) -> dict[str, Any]:
        parts = {"when": self.when, "which": self.which, "how": self.how}
        return {name: component for name, component in parts.items() if component is not None}
