"""Algorithm 1 beside a training loop that another library runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from taskfree import batch
from taskfree.batch import Batch
from taskfree.how import MAS, Importance
from taskfree.importance import evaluating
from taskfree.state import nest, part
from taskfree.when import Decision, Settled, Trigger
from taskfree.which import Buffer, Hardest, Recent

__all__ = ["Consolidator"]


class Consolidator:
    """Two calls a step: `after_backward`, then, when the optimizer has stepped, `after_step`.

    Args:
        loss: a function of outputs and targets that returns one value a sample. Without it no
            sample is learned again: the buffer only estimates importance.
        when: the trigger; one that needs no thresholds if not said.
        which: the buffer; the 30 hardest samples if not said, or without `loss` the 100 newest.
        how: the way to keep knowledge; MAS with a strength that has no units if not said.

    >>> model = nn.Linear(2, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> keep = Consolidator(nn.CrossEntropyLoss(reduction="none"))
    >>> for _ in range(100):
    ...     x = torch.randn(8, 2)
    ...     y = (x[:, 0] > 0).long()
    ...     loss = nn.functional.cross_entropy(model(x), y)
    ...     loss.backward()
    ...     keep.after_backward(model)
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
        when: Trigger | None = None,
        which: Buffer | None = None,
        how: Importance | None = None,
    ) -> None:
        if loss is None and isinstance(which, Hardest):
            raise ValueError(
                "which=Hardest(...) needs the loss of every sample: pass loss, one that is made "
                "with reduction='none', or which=Recent(...) or Reservoir(...)"
            )
        self.loss = loss
        if which is None:
            which = Recent(100) if loss is None else Hardest(30)
        self.when: Trigger = Settled() if when is None else when
        self.which: Buffer = which
        self.how: Importance = MAS(0.01, penalty="relative") if how is None else how
        self.consolidations = 0
        self._held_loss = 0.0

    def after_backward(self, model: nn.Module, share: float = 1.0) -> None:
        """Add the gradients of what is kept: of the buffer's mean loss, and of the penalty.

        Args:
            model: the one that learns.
            share: of all that comes before the optimizer's next step, if gradients are gathered
                over several batches.
        """
        self._held_loss = 0.0
        if self.loss is not None and len(self.which):
            outputs = batch.call(model, self.which.inputs)
            held = self.loss(outputs, self.which.targets).mean()
            (share * held).backward()  # type: ignore[no-untyped-call]
            self._held_loss = held.item()
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
            self.how.pull_back(model, optimizer)
        decision = self.when.update(loss + self._held_loss)
        if decision == "plateau":
            self.how.consolidate(model, self.which.inputs if len(self.which) else inputs)
            self.consolidations += 1
        if targets is None:
            targets = torch.zeros(batch.rows(inputs))
        x, y = self.which.join(batch.without_graph(inputs), batch.without_graph(targets))
        self.which.update(self._losses(model, x, y))
        return decision

    @torch.no_grad()
    def _losses(self, model: nn.Module, x: Batch, y: Batch) -> Tensor:
        if self.loss is None:
            return torch.zeros(batch.rows(x))
        with evaluating(model):
            return self.loss(batch.call(model, x), y)

    def state_dict(self) -> dict[str, Tensor]:
        """All that later steps depend on."""
        parts = {"when": self.when, "which": self.which, "how": self.how}
        state = {"consolidations": torch.tensor(self.consolidations)}
        for name, component in parts.items():
            state |= nest(name, component.state_dict())  # type: ignore[attr-defined]
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        self.when.load_state_dict(part("when", state))
        self.which.load_state_dict(part("which", state))
        self.how.load_state_dict(part("how", state))
        self.consolidations = int(state["consolidations"])
