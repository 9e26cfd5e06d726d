"""For Lightning: a callback that adds consolidation to any LightningModule.

    trainer = Trainer(callbacks=[Consolidate()])

It watches the training loss. When that has settled it works out which parameters matter, and from
then on holds those after every step of the optimizer. With `loss`, a few samples are kept and
learned again as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor
from torch.optim import Optimizer

from taskfree.adapters.consolidator import Consolidator
from taskfree.batch import Batch
from taskfree.how import Importance
from taskfree.when import Trigger
from taskfree.which import Buffer

__all__ = ["Consolidate"]


def pair(batch: Any) -> tuple[Batch, Batch | None]:
    """The inputs and targets of a batch: of a pair its two parts, otherwise all of it and none.

    >>> pair(["x", "y"]), pair("x")
    (('x', 'y'), ('x', None))
    """
    if isinstance(batch, (tuple, list)):
        return batch[0], batch[1] if len(batch) > 1 else None
    return batch, None


class Consolidate(Callback):
    """Adds when, which and how to a LightningModule whose `forward` gives its outputs.

    Args:
        loss: a function of outputs and targets that returns one value a sample; with it the
            buffer's samples are learned again at every step.
        when: the trigger; one that needs no thresholds if not said.
        which: the buffer; the 30 hardest samples if not said, or without `loss` the 100 newest.
        how: the way to keep knowledge; MAS with a strength that has no units if not said.
        unpack: gives the inputs and targets of a batch; the first two parts of it if not said.

    Its state is part of Lightning's checkpoints. It works in one process: for several, use
    `taskfree.Learner` under torchrun.

    >>> callback = Consolidate()
    >>> callback.consolidator.consolidations
    0
    """

    def __init__(
        self,
        loss: Callable[[Any, Any], Tensor] | None = None,
        *,
        when: Trigger | None = None,
        which: Buffer | None = None,
        how: Importance | None = None,
        unpack: Callable[[Any], tuple[Batch, Batch | None]] = pair,
    ) -> None:
        self.consolidator = Consolidator(loss, when=when, which=which, how=how)
        self.unpack = unpack
        self._stepping: list[Optimizer] = []

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Refuse what it does not do right, before anything is trained."""
        del pl_module, stage
        if trainer.world_size > 1:
            raise ValueError(
                f"Consolidate works in one process, not in {trainer.world_size}: each would hold "
                "something else; use taskfree.Learner under torchrun"
            )
        if self.consolidator.loss and getattr(trainer.precision_plugin, "scaler", None):
            raise ValueError(
                f"Consolidate(loss=...) cannot scale its gradients as precision={trainer.precision}"
                " does; use precision='bf16-mixed' or 32, or leave out loss"
            )

    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """The gradients of the new samples are there."""
        self.consolidator.after_backward(pl_module, 1 / trainer.accumulate_grad_batches)

    def on_before_optimizer_step(
        self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer
    ) -> None:
        """This optimizer is about to step."""
        del trainer, pl_module
        self._stepping.append(optimizer)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """The step was taken, unless gradients are being gathered over several batches."""
        del batch_idx
        stepped, self._stepping = self._stepping, []
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        if loss is None:
            if stepped:
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
        self.consolidator.load_state_dict(state_dict)
