"""The learner: Algorithm 1 of the paper, one time step a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import EllipsisType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from taskfree import arguments, batch
from taskfree.batch import Batch
from taskfree.how import MAS, Importance
from taskfree.importance import evaluating, trainable
from taskfree.state import nest, pack, part, unpack
from taskfree.undo import Undo, load_random_state, random_state
from taskfree.when import Never, RelativePlateau, Trigger
from taskfree.which import Buffer, Hardest

__all__ = ["Learner", "Report"]


@dataclass(frozen=True, slots=True)
class Report:
    """What happened in one time step."""

    step: int
    """The time step's number, from 1."""
    loss: float
    """The mean loss over the new samples, before the update: an honest online measure."""
    buffer_loss: float
    """The same over the buffer; nan while it is empty."""
    window_loss: float
    """What entered the window: the sum of both, without the penalty."""
    window_mean: float
    """The mean of the trigger's window; nan while it fills."""
    consolidated: bool
    """Whether the importance was updated and the parameters were anchored."""
    peak: bool
    """Whether new, harder data was noticed, so that the next plateau consolidates again."""


class Learner:
    """Keeps a model learning on a stream, without task labels and without forgetting.

    Leave parts out to get the paper's baselines: `how=None` is online learning with a buffer,
    `which=None, how=None` is plain online learning, bit for bit.

    Args:
        model: any module; its trainable parameters are learned.
        optimizer: any optimizer of `torch.optim` over the model's parameters.
        loss: a function of outputs and targets that returns one value a sample.
        when: the trigger; None never consolidates.
        which: the buffer; None keeps no samples, and importance is estimated on the new ones.
        how: the way to keep knowledge; None keeps none.
        repeats: gradient steps a time step, the paper's N.

    Left unsaid, `when`, `which` and `how` are a trigger without a loss scale, the 30 hardest
    samples and MAS with a proximal penalty.

    A call that raises, for whatever reason, leaves the learner as it was before the call.

    >>> _ = torch.manual_seed(0)
    >>> model = nn.Linear(2, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    >>> learner = Learner(model, optimizer, loss=nn.CrossEntropyLoss(reduction="none"))
    >>> for _ in range(200):
    ...     x = torch.randn(8, 2)
    ...     report = learner.learn(x, (x[:, 0] > 0).long())
    >>> report.step, report.loss < 0.2, len(learner.which)
    (200, True, 30)
    >>> learner.predict(torch.tensor([[1.0, 0.0]])).argmax(1)
    tensor([1])
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        *,
        loss: Callable[[Any, Any], Tensor],
        when: Trigger | EllipsisType | None = ...,
        which: Buffer | EllipsisType | None = ...,
        how: Importance | EllipsisType | None = ...,
        repeats: int = 1,
    ) -> None:
        _check_parts(model, optimizer, loss)
        self.model = model
        self.optimizer = optimizer
        self.loss = loss
        self.when: Trigger = RelativePlateau() if when is ... else Never() if when is None else when
        self.which: Buffer | None = Hardest(30) if which is ... else which
        self.how: Importance | None = MAS(strength=20.0) if how is ... else how
        self.repeats = arguments.whole("repeats", repeats, least=1)
        self.step = 0
        self._undo = Undo(model, optimizer)

    def learn(self, inputs: Batch, targets: Batch) -> Report:
        """Learn from the new samples of one time step: Algorithm 1, lines 5 to 22."""
        self._check_samples(inputs, targets)
        if not self.model.training:
            self.model.train()
        trigger = self.when.state_dict()
        try:
            with self._undo:
                return self._time_step(inputs, targets)
        except BaseException:
            self.when.load_state_dict(trigger)
            raise

    def _time_step(self, x: Batch, y: Batch) -> Report:
        k = batch.rows(x)
        buffer = self.which if self.which is not None and len(self.which) else None
        joint_x = batch.join(x, buffer.inputs) if buffer else x
        joint_y = batch.join(y, buffer.targets) if buffer else y
        passes: list[Tensor] = []  # the samples' losses in each forward pass

        def objective() -> Any:  # line 7: new samples + buffer + penalty
            self.optimizer.zero_grad()
            losses = self._losses(joint_x, joint_y)
            share = _shares(k, len(losses), losses.dtype, losses.device)
            torch.autograd.backward(losses, share)
            if self.how is not None:
                self.how.add_gradients(self.model)
            passes.append(losses.detach())
            return passes[-1] @ share

        for _ in range(self.repeats):  # line 6
            self.optimizer.step(objective)  # line 8
            if self.how is not None:
                self.how.pull_back(self.model, self.optimizer)
        loss, buffer_loss = _first_means(passes, k)
        window_loss = loss + buffer_loss if buffer else loss

        decision = self.when.update(window_loss)  # lines 10 and 13, 16 to 21
        consolidated = decision == "plateau" and self.how is not None
        if self.how is not None and consolidated:
            self.how.consolidate(self.model, buffer.inputs if buffer else x)  # lines 14 and 15

        if self.which is not None:
            losses = self._losses_again(joint_x, joint_y) if self.which.rescore else passes[-1]
            self.which.update(x, y, losses[:k], losses[k:])  # line 22
        self.step += 1
        return Report(
            step=self.step,
            loss=loss,
            buffer_loss=buffer_loss,
            window_loss=window_loss,
            window_mean=self.when.window_mean,
            consolidated=consolidated,
            peak=decision == "peak",
        )

    def predict(self, inputs: Batch) -> Any:
        """The model's outputs in eval mode, without gradients; nothing is learned or changed."""
        batch.check("inputs", inputs)
        with torch.no_grad(), evaluating(self.model):
            return batch.call(self.model, inputs)

    def state_dict(self) -> dict[str, Tensor]:
        """Everything the continuation depends on, as flat names to tensors.

        It holds the model, the optimizer, the trigger, the buffer, the importance, the step and
        torch's random generators. As in PyTorch, the tensors are not copies.
        """
        state = {
            "step": torch.tensor(self.step),
            **nest("model", _tensors_of(self.model)),
            **nest("optimizer", pack(self.optimizer.state_dict())),
            **nest("random", random_state(self.model)),
            **nest("when", self.when.state_dict()),
        }
        if self.which is not None:
            state |= nest("which", self.which.state_dict())
        if self.how is not None:
            state |= nest("how", self.how.state_dict())
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue bit for bit from a saved state; if it does not fit, nothing changes.

        The learner must have been made of the same parts: the state holds their content, not
        their settings.
        """
        before = {name: tensor.clone() for name, tensor in self.state_dict().items()}
        try:
            self._load(state)
        except BaseException:
            self._load(before)
            raise

    def _load(self, state: Mapping[str, Tensor]) -> None:
        saved, own = part("model", state), _tensors_of(self.model)
        for name in saved.keys() | own.keys():
            there = list(saved[name].shape) if name in saved else "nothing"
            here = list(own[name].shape) if name in own else "nothing"
            if there != here:
                raise ValueError(
                    f"the saved state has {there} for {name!r} and this model has {here}; "
                    "load it into a learner with the model it was saved from"
                )
        optional: dict[str, Buffer | Importance | None] = {"which": self.which, "how": self.how}
        for name, component in optional.items():
            if bool(part(name, state)) != (component is not None):
                raise ValueError(
                    f"the state was saved {'with' if component is None else 'without'} a part for "
                    f"{name!r} and this learner has {'none' if component is None else 'one'}; "
                    "make it of the same parts"
                )
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(saved[name])
        name = "optimizer"
        try:
            self.optimizer.load_state_dict(unpack(part(name, state)))
            parts: dict[str, Any] = {"when": self.when, "which": self.which, "how": self.how}
            for name, component in parts.items():
                if component is not None:
                    component.load_state_dict(part(name, state))
            name = "random"
            load_random_state(part(name, state))
        except KeyError as error:
            raise ValueError(f"the saved state lacks {f'{name}.{error.args[0]}'!r}") from error
        if "step" not in state:
            raise ValueError("the saved state lacks 'step'")
        self.step = int(state["step"])

    def _losses(self, x: Batch, y: Batch) -> Tensor:
        """The loss of every sample."""
        try:
            outputs = batch.call(self.model, x)
        except Exception as error:
            error.add_note(f"the model was given inputs of {batch.describe(x)} a sample")
            raise
        try:
            losses = self.loss(outputs, y)
        except Exception as error:
            raise ValueError(
                f"loss refused targets of {batch.describe(y)} a sample: {error}; "
                "pass targets of the shape and dtype that the loss wants"
            ) from error
        if not isinstance(losses, Tensor) or losses.shape != (batch.rows(x),):
            came = list(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
            raise ValueError(
                f"loss must return one value a sample, shape [{batch.rows(x)}], got {came}; "
                "make it with reduction='none' and take the mean over all but the first dimension"
            )
        return losses

    def _losses_again(self, x: Batch, y: Batch) -> Tensor:
        """The loss of every sample with the parameters as they now are."""
        with torch.no_grad(), evaluating(self.model):
            return self._losses(x, y)

    def _check_samples(self, inputs: Batch, targets: Batch) -> None:
        """Raise if the samples are none, or do not fit each other or the buffer."""
        samples, labels = batch.check("inputs", inputs), batch.check("targets", targets)
        if samples != labels:
            raise ValueError(
                f"inputs has {samples} rows and targets {labels}; both need one row a sample"
            )
        if self.which is not None:
            self.which.check(inputs, targets)


@lru_cache(maxsize=16)
def _shares(k: int, samples: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """What each loss weighs in the mean over `k` new samples plus the mean over the others."""
    share = torch.full((samples,), 1 / k, dtype=dtype, device=device)
    share[k:] = 1 / max(1, samples - k)
    return share


def _first_means(passes: list[Tensor], k: int) -> tuple[float, float]:
    """The mean loss of the new samples and of the buffer's in the first pass, if all are finite.

    It is the one place where the learner waits for an accelerator.
    """
    first = passes[0]
    finite = torch.stack(passes).isfinite().all().to(first.dtype)
    loss, buffer_loss, all_finite = torch.stack(
        [first[:k].mean(), first[k:].mean(), finite]
    ).tolist()
    if not all_finite:
        number, losses = next(
            (number, losses) for number, losses in enumerate(passes) if not losses.isfinite().all()
        )
        new, held = (int((~part.isfinite()).sum()) for part in (losses[:k], losses[k:]))
        advice = (
            "check the inputs and targets"
            if number == 0
            else "learning diverges: lower the learning rate"
        )
        raise ValueError(
            f"loss is nan or inf for {new} of {k} new samples and {held} of {len(losses) - k} "
            f"samples of the buffer in gradient step {number + 1}; nothing was learned: {advice}"
        )
    return loss, buffer_loss


def _tensors_of(model: nn.Module) -> dict[str, Tensor]:
    """A model's parameters and buffers, each once, however many layers share it."""
    found = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {name: tensor.detach() for name, tensor in found.items()}


def _check_parts(model: nn.Module, optimizer: Optimizer, loss: object) -> None:
    """Raise if model, optimizer and loss do not make a learner."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if not isinstance(optimizer, Optimizer):
        raise TypeError(
            f"optimizer must be a torch.optim.Optimizer over the model's parameters, "
            f"got {type(optimizer).__name__}"
        )
    if not callable(loss):
        raise TypeError(f"loss must be a function of outputs and targets, got {loss!r}")
    reduction = getattr(loss, "reduction", "none")
    if reduction != "none":
        raise ValueError(
            f"loss must return one value a sample, got {loss} with reduction={reduction!r}; "
            "make it with reduction='none'"
        )
    for value in (*model.parameters(), *model.buffers()):
        if is_lazy(value):
            raise ValueError(
                "model has parameters whose shape is not known yet; run it once on some inputs "
                "and make the optimizer after that"
            )
    optimized = {value for group in optimizer.param_groups for value in group["params"]}
    for value in optimized:
        if not value.is_floating_point():
            raise TypeError(
                f"optimizer holds a parameter of {value.dtype}, shape {list(value.shape)}; only "
                "floating point parameters can be learned: leave it out, or register it as a buffer"
            )
    if not any(value in optimized for value in trainable(model).values()):
        raise ValueError(
            "optimizer holds none of the model's trainable parameters; "
            "make it from model.parameters()"
        )
