"""The loss of a gradient step: the mean over the new samples plus that over the replayed ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from taskfree._core import batch, validation
from taskfree._core.distributed import Joint, Processes
from taskfree._core.errors import NotFiniteError
from taskfree._core.finite import parameters_are_finite
from taskfree._core.model import evaluating, named_tensors, trainable, unwrap
from taskfree._learner.snapshot import Prepare, prepared

Loss: TypeAlias = Callable[[Any, Any], Tensor]
"""A function of outputs and targets that returns one value per sample."""
Hold: TypeAlias = Callable[[Any, Tensor, slice], None]
"""A function of outputs and losses of some rows that may add to the outputs' gradients."""


class Objective:
    """Evaluates and differentiates the loss of model and samples, on all ranks.

    Args:
        model: any module.
        optimizer: over the parameters that learn; gradients of others are cleared too.
        processes: the ranks that learn together.
        prepare: what is done to inputs before the model sees them, or None.
        micro_batch: how many samples pass through the model at once, or None for all.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        processes: Processes,
        prepare: Prepare | None = None,
        micro_batch: int | None = None,
    ) -> None:
        if prepare is not None and not callable(prepare):
            raise TypeError(f"prepare must be a function of inputs, got {prepare!r}")
        self.prepare = prepare
        self.micro_batch = micro_batch
        if micro_batch is not None:
            validation.integer("micro_batch", micro_batch, least=1)
        # Gradients are summed with the losses, not by the wrapper during the backward pass.
        self.network = model.module if isinstance(model, DistributedDataParallel) else model
        self._model, self._processes = model, processes
        optimized = {id(value) for group in optimizer.param_groups for value in group["params"]}
        self._not_optimized = [p for p in trainable(model).values() if id(p) not in optimized]

    def differentiate(
        self, joint: Joint, loss: Loss, optimizer: Optimizer, hold: Hold | None = None
    ) -> Tensor:
        """Set the gradients; return the loss of every sample of all ranks.

        `hold` is called with outputs and losses before the backward pass, if samples are replayed.
        """

        def backward() -> Tensor:
            found, rows = list[Tensor](), batch.rows(joint.inputs)
            size = rows if self.micro_batch is None else self.micro_batch
            for start in range(0, rows, size):
                part = slice(start, min(start + size, rows))
                outputs, losses = self._forward(joint if size >= rows else joint.part(part), loss)
                if hold is not None and joint.replayed:
                    hold(outputs, losses, part)
                counts = (joint.replayed_here, joint.replayed, rows, joint.new)
                weights = _weights(*counts, losses.dtype, losses.device)[part]
                torch.autograd.backward(losses, weights)
                found.append(losses.detach())
            return found[0] if len(found) == 1 else torch.cat(found)

        learning = [p for group in optimizer.param_groups for p in group["params"]]
        learning += self._not_optimized
        for parameter in learning:
            parameter.grad = None
        buffers = partial(self._float_buffers, loss)
        return self._processes.differentiate(backward, joint, learning, buffers)

    def evaluate(self, joint: Joint, loss: Loss, gradient_step: int) -> Tensor:
        """The loss of every sample with the parameters as they are now, in eval mode."""

        def forward() -> Tensor:
            with torch.no_grad(), evaluating(self._model):
                return self._forward(joint, loss)[1]

        losses = self._processes.evaluate(forward, joint)
        self.means(losses, joint, gradient_step)
        return losses

    def means(self, losses: Tensor, joint: Joint, gradient_step: int = 1) -> tuple[float, float]:
        """The mean loss of the new samples and of the replayed ones (0 if there are none).

        Raises a NotFiniteError if a loss is nan or inf.
        """
        values, old = losses.tolist(), joint.replayed
        new = sum(values[old:]) / (len(values) - old)
        replayed = sum(values[:old]) / old if old else 0.0
        if math.isfinite(new + replayed):
            return new, replayed
        bad = ~losses.isfinite()
        advice, blamed = "check the inputs and targets", None
        if gradient_step > 1:
            advice = "learning diverges: lower the learning rate"
        elif not parameters_are_finite(self._model):
            advice = "the model's parameters are not finite themselves: go back to a checkpoint"
        elif bad[old:].any() and not bad[:old].any():
            blamed = (bad if joint.places is None else bad[joint.places])[joint.replayed_here :]
        raise NotFiniteError(
            f"loss is nan or inf for {int(bad[old:].sum())} of {joint.new} new samples and "
            f"{int(bad[:old].sum())} of {old} replayed samples in gradient step "
            f"{gradient_step}; nothing was learned: {advice}",
            blamed,
        )

    def _float_buffers(self, loss: Loss) -> list[Tensor]:
        """The floating point buffers of model and loss, which a forward pass may write to."""
        modules = [self.network, *([loss] if isinstance(loss, nn.Module) else [])]
        found = (buffer for module in modules for buffer in module.buffers())
        return [buffer for buffer in found if buffer.is_floating_point()]

    def _forward(self, joint: Joint, loss: Loss) -> tuple[Any, Tensor]:
        """The outputs and the loss of every sample on this rank."""
        x, y = joint.inputs, joint.targets
        samples = (*batch.tensors(x), *batch.tensors(y))
        versions = [column._version for column in samples]
        try:
            outputs = batch.call(self.network, prepared(self.prepare, x))
        except Exception as error:
            error.add_note(f"the model was given inputs of {batch.describe(x)} per sample")
            raise
        try:
            losses = loss(outputs, y)
        except Exception as error:
            came = (
                batch.describe(outputs) if isinstance(outputs, Tensor) else type(outputs).__name__
            )
            raise ValueError(
                f"loss refused targets of {batch.describe(y)} per sample with outputs of {came}: "
                f"{error}; pass targets of the shape and dtype that the loss needs"
            ) from error
        if joint.buffered and versions != [column._version for column in samples]:
            raise ValueError(
                "model or loss writes to its inputs or targets, which would change the samples "
                "in the buffer; use operations that are not in place, or clone them first"
            )
        losses = per_sample(losses, outputs, y, batch.rows(x))
        if torch.is_grad_enabled() and not losses.requires_grad:
            raise ValueError(
                "loss does not depend on any trainable parameter; check that the model's outputs "
                "are not detached and that loss uses them"
            )
        return outputs, losses


def per_sample(losses: Any, outputs: Any, targets: Any, samples: int) -> Tensor:
    """One loss per sample: the mean over all but the first dimension of what a loss returned.

    >>> per_sample(torch.tensor([[1.0, 3.0]]), torch.zeros(1, 2), torch.zeros(1, 2), 1)
    tensor([2.])
    >>> outputs, targets = torch.zeros(3, 1), torch.zeros(3)
    >>> per_sample(outputs - targets, outputs, targets, 3)
    Traceback (most recent call last):
    ...
    ValueError: loss returned shape [3, 3] for 3 samples: outputs of float32[1] per sample and
    targets of float32[] were broadcast against each other; give both the same shape, for example
    with outputs.squeeze(1)
    """
    if not isinstance(losses, Tensor) or not losses.dim() or losses.shape[0] != samples:
        came = list(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
        raise ValueError(
            f"loss must return one value per sample, shape [{samples}], got {came}; "
            "make it with reduction='none'"
        )
    if losses.dim() == 1:
        return losses
    tensors = isinstance(outputs, Tensor) and isinstance(targets, Tensor)
    if tensors and losses.shape == (samples, samples) != tuple(outputs.shape):
        raise ValueError(
            f"loss returned shape {list(losses.shape)} for {samples} samples: outputs of "
            f"{batch.describe(outputs)} per sample and targets of {batch.describe(targets)} were "
            "broadcast against each other; give both the same shape, for example with "
            "outputs.squeeze(1)"
        )
    return losses.flatten(1).mean(1)


@lru_cache(maxsize=16)
def _weights(
    here: int, replayed: int, rows: int, new: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """The weight of each loss in the sum of both means; the first `here` samples are replayed."""
    weights = torch.full((rows,), 1 / new, dtype=dtype, device=device)
    weights[:here] = 1 / max(1, replayed)
    return weights


def learned_tensors(model: nn.Module, optimizer: Optimizer, loss: object) -> dict[str, Tensor]:
    """The tensors of model and loss, and whatever else the optimizer updates, each once."""
    found = named_tensors(unwrap(model))
    if isinstance(loss, nn.Module):
        found |= {f"loss.{name}": value for name, value in named_tensors(loss).items()}
    known = {id(tensor) for tensor in found.values()}
    for group in optimizer.param_groups:
        for value in group["params"]:
            if id(value) not in known:
                found[f"optimized.{len(known)}"] = value
                known.add(id(value))
    return {name: tensor.detach() for name, tensor in found.items()}
