"""For Lightning: a callback that adds consolidation to any LightningModule.

    trainer = Trainer(callbacks=[Consolidate()])

It watches the training loss. When that has settled, it estimates the importance of the parameters
and protects them from then on. With `loss`, it also keeps a few samples and replays them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor
from torch.optim import LBFGS, Optimizer

from taskfree._core.batch import Batch
from taskfree.adapters.hooks import Consolidator
from taskfree.defaults import Auto
from taskfree.how import Regularizer
from taskfree.when import Trigger
from taskfree.which import Buffer

__all__ = ["Consolidate"]


def pair(batch: Any) -> tuple[Batch, Batch | None]:
    """The inputs and targets of a batch; a tensor is inputs without targets.

    >>> pair(["x", "y"]), pair(["x"])
    (('x', 'y'), ('x', None))
    """
    if isinstance(batch, Tensor):
        return batch, None
    if isinstance(batch, (tuple, list)) and len(batch) in (1, 2):
        return batch[0], batch[1] if len(batch) > 1 else None
    kind = f"{type(batch).__name__} of {len(batch)}" if hasattr(batch, "__len__") else repr(batch)
    raise ValueError(
        f"a batch is a {kind}, in which inputs and targets are not clear; pass "
        "Consolidate(unpack=...), a function that returns both"
    )


class Consolidate(Callback):
    """Adds when, which and how to a LightningModule whose `forward` returns its outputs.

    Args:
        loss: a function of outputs and targets that returns one value per sample; with it the
            buffer is replayed in every step.
        when: the trigger; None never consolidates. Default: `Settled()`.
        which: the buffer; None keeps no samples. Default: `Reservoir(60,
            balanced="auto")`, or `Recent(100)` without `loss`.
        how: the regularizer; None protects nothing. Default: `MAS(0.01, penalty="relative")`.
        unpack: returns the inputs and targets of a batch; by default its two items.

    Its state is part of Lightning's checkpoints. It works in one process: for several, use
    `taskfree.Learner` under torchrun. In manual optimization it expects one backward pass per step.

    >>> callback = Consolidate()
    >>> callback.consolidator.consolidations
    0
    """

    def __init__(
        self,
        loss: Callable[[Any, Any], Tensor] | None = None,
        *,
        when: Trigger | Auto | None = "auto",
        which: Buffer | Auto | None = "auto",
        how: Regularizer | Auto | None = "auto",
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
        """Refuse what is not supported, before anything is trained."""
        del pl_module, stage
        self._device = trainer.strategy.root_device
        if trainer.world_size > 1:
            raise ValueError(
                f"Consolidate works in one process, not in {trainer.world_size}: they would "
                "diverge; use taskfree.Learner under torchrun"
            )
        if self._adds_gradients and getattr(trainer.precision_plugin, "scaler", None):
            raise ValueError(
                f"Consolidate cannot scale the gradients of its buffer, or of penalty='gradient', "
                f"as precision={trainer.precision!r} does; use precision='bf16-mixed' or 32"
            )

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Refuse an optimizer with a line search."""
        del pl_module
        if self._adds_gradients and any(isinstance(own, LBFGS) for own in trainer.optimizers):
            raise ValueError(
                "LBFGS does not find in the loss what Consolidate adds to the gradients; leave out "
                "loss and penalty='gradient', or use taskfree.Learner"
            )

    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """The gradients of the new samples are set."""
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
        """The step was taken, unless gradients are being accumulated."""
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
