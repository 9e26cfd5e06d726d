"""For Lightning: a callback that adds consolidation to any LightningModule.

    trainer = Trainer(callbacks=[Consolidate()])

It watches the training loss. When that has settled it works out which parameters matter, and from
then on holds those after every step of the optimizer. With `loss`, a few samples are kept and
learned again as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import EllipsisType
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor
from torch.optim import LBFGS, Optimizer

from taskfree.adapters.consolidator import Consolidator
from taskfree.batch import Batch
from taskfree.how import Importance
from taskfree.when import Trigger
from taskfree.which import Buffer

__all__ = ["Consolidate"]


def pair(batch: Any) -> tuple[Batch, Batch | None]:
    """The inputs and targets of a batch: of a pair its two parts, of a tensor all of it and none.

    >>> pair(["x", "y"]), pair(["x"])
    (('x', 'y'), ('x', None))
    """
    if isinstance(batch, Tensor):
        return batch, None
    if isinstance(batch, (tuple, list)) and len(batch) in (1, 2):
        return batch[0], batch[1] if len(batch) > 1 else None
    kind = f"{type(batch).__name__} of {len(batch)}" if hasattr(batch, "__len__") else repr(batch)
    raise ValueError(
        f"a batch is a {kind}, in which inputs and targets cannot be told apart; pass "
        "Consolidate(unpack=...), a function that gives both"
    )


class Consolidate(Callback):
    """Adds when, which and how to a LightningModule whose `forward` gives its outputs.

    Args:
        loss: a function of outputs and targets that returns one value a sample; with it the
            buffer's samples are learned again at every step.
        when: the trigger; None never consolidates. One that needs no thresholds if not said.
        which: the buffer; None keeps no samples. The 30 hardest samples if not said, or without
            `loss` the 100 newest.
        how: the way to keep knowledge; None keeps none. MAS with a strength that has no units if
            not said.
        unpack: gives the inputs and targets of a batch; its two parts if not said.

    Its state is part of Lightning's checkpoints. It works in one process: for several, use
    `taskfree.Learner` under torchrun. In manual optimization it expects one backward pass a step.

    >>> callback = Consolidate()
    >>> callback.consolidator.consolidations
    0
    """

    def __init__(
        self,
        loss: Callable[[Any, Any], Tensor] | None = None,
        *,
        when: Trigger | EllipsisType | None = ...,
        which: Buffer | EllipsisType | None = ...,
        how: Importance | EllipsisType | None = ...,
        unpack: Callable[[Any], tuple[Batch, Batch | None]] = pair,
    ) -> None:
        self.consolidator = Consolidator(loss, when=when, which=which, how=how)
        self.unpack = unpack
        self._stepping: list[Optimizer] = []
        self._device: torch.device | None = None

    @property
    def _adds_gradients(self) -> bool:
        own = self.consolidator
        return own.loss is not None or getattr(own.how, "penalty", "") == "gradient"

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Refuse what it does not do right, before anything is trained."""
        del pl_module, stage
        self._device = trainer.strategy.root_device
        if trainer.world_size > 1:
            raise ValueError(
                f"Consolidate works in one process, not in {trainer.world_size}: each would hold "
                "something else; use taskfree.Learner under torchrun"
            )
        if self._adds_gradients and getattr(trainer.precision_plugin, "scaler", None):
            raise ValueError(
                f"Consolidate cannot scale the gradients of its buffer, or of penalty='gradient', "
                f"as precision={trainer.precision!r} does; use precision='bf16-mixed' or 32"
            )

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Refuse an optimizer that looks for itself where the loss is lowest."""
        del pl_module
        if self._adds_gradients and any(isinstance(own, LBFGS) for own in trainer.optimizers):
            raise ValueError(
                "LBFGS does not find in the loss what Consolidate adds to the gradients; leave out "
                "loss and penalty='gradient', or use taskfree.Learner"
            )

    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """The gradients of the new samples are there."""
        self.consolidator.after_backward(pl_module, 1 / trainer.accumulate_grad_batches)

    def on_before_optimizer_step(
        self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer
    ) -> None:
        """This optimizer is about to step; LBFGS says so several times."""
        del trainer
        if not self._stepping:
            self.consolidator.before_step(pl_module)
        if all(optimizer is not known for known in self._stepping):
            self._stepping.append(optimizer)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """The step was taken, unless gradients are being gathered over several batches."""
        del batch_idx
        stepped, self._stepping = self._stepping, []
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        if loss is None:
            if stepped and not pl_module.automatic_optimization:
                raise ValueError("Consolidate needs the loss: return it from training_step")
            return  # training_step skipped this batch
        if pl_module.automatic_optimization:
            loss = loss * trainer.accumulate_grad_batches  # Lightning has divided it
        self.consolidator.after_step(pl_module, stepped, *self.unpack(batch), float(loss))
        pl_module.log("consolidations", float(self.consolidator.consolidations), prog_bar=True)

    def state_dict(self) -> dict[str, Any]:
        """For Lightning's checkpoints."""
        return dict(self.consolidator.state_dict())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """From Lightning's checkpoints."""
        self.consolidator.load_state_dict(state_dict, self._device)
