"""The learner: Algorithm 1 of the paper, one time step a call."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import EllipsisType
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import LBFGS, Optimizer

from taskfree import arguments, batch, events, guards
from taskfree.advice import Adviser
from taskfree.batch import Batch
from taskfree.events import Event
from taskfree.guards import NotFiniteError
from taskfree.how import MAS, Importance
from taskfree.importance import evaluating, trainable, unwrapped
from taskfree.ranks import Ranks, Sharded
from taskfree.state import load_optimizer, nest, pack, part, unpack
from taskfree.undo import Undo, load_random_state, random_state
from taskfree.when import Never, Settled, Trigger
from taskfree.which import Buffer, Hardest

__all__ = ["Learner", "Report"]

OnBad: TypeAlias = Literal["raise", "skip"]


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
    skipped: int = 0
    """How many new samples were left out because of a nan or inf; see `on_bad`."""
    event: Event | None = None
    """What led to a plateau or peak, if there was one."""


class _Joint(NamedTuple):
    """The samples of a time step: those that the buffer holds, then the new ones."""

    inputs: Batch
    targets: Batch
    held_here: int
    held: int
    """How many are held on all ranks: the same as here, for a process alone."""
    new: int
    places: Tensor | None = None
    """Where this rank's samples stand among those of all ranks; None for a process alone."""


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
        on_bad: what to do about new samples with a nan or inf in their inputs, targets or loss:
            `"raise"` a NotFiniteError, or `"skip"` them, learning from the rest as if they had not
            come; they are counted in `skipped`, and there is one warning.

    In a process group of `torch.distributed`, each rank learns from its shard of the stream, and
    all together as one process would from the whole: see `taskfree.ranks`. `learn`, `state_dict`
    and `load_state_dict` are then called by all ranks.

    Left unsaid, `when`, `which` and `how` are a trigger that needs no thresholds, the 30 hardest
    samples, and MAS with a strength that has no units: nothing has to be tuned.

    A call that raises leaves the learner as it was before the call. One thing is not taken back:
    with `repeats=1` parameters are only copied in steps that consolidate or rescore, or that the
    size of the gradients makes risky, so that an interruption, or an error of the optimizer's own,
    during its update leaves that half done.

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
        on_bad: OnBad = "raise",
    ) -> None:
        arguments.learner(model, optimizer, loss, {"when": when, "which": which, "how": how})
        self.model = model
        self.optimizer = optimizer
        self.loss = loss
        self.when: Trigger = Settled() if when is ... else Never() if when is None else when
        self._ranks = Ranks.joined(model)
        self.which: Buffer | None = Hardest(30) if which is ... else which
        if self._ranks is not None and self.which is not None:
            self.which = Sharded(self.which, self._ranks)
        self.how: Importance | None = MAS(strength=0.01, penalty="relative") if how is ... else how
        self.repeats = arguments.whole("repeats", repeats, least=1)
        self.on_bad = arguments.one_of("on_bad", on_bad, ("raise", "skip"))
        self.step = 0
        self.skipped = 0
        self._adviser = Adviser()
        self._undo = Undo(
            [model, loss] if isinstance(loss, nn.Module) else [model],
            optimizer,
            parts=[
                part
                for part in (self.when, self.which, getattr(self.which, "whole", None), self.how)
                if part is not None
            ],
        )
        optimized = {id(value) for group in optimizer.param_groups for value in group["params"]}
        self._not_optimized = [p for p in trainable(model).values() if id(p) not in optimized]
        # An optimizer that searches along a line evaluates the objective several times a step.
        self._searches = isinstance(optimizer, LBFGS)
        if self._searches and getattr(self.how, "penalty", "") == "gradient":
            raise ValueError(
                "how=MAS(penalty='gradient') adds to the gradients what LBFGS does not find in the "
                "objective; use penalty='proximal'"
            )
        # The ranks' gradients are added up here, with the losses, not by the wrapper.
        self._network = model.module if isinstance(model, DistributedDataParallel) else model
        if self._ranks is not None:
            self._ranks.start_alike(self._tensors())

    def learn(self, inputs: Batch, targets: Batch) -> Report:
        """Learn from the new samples of one time step: Algorithm 1, lines 5 to 22."""
        skipped = 0
        while True:
            new, bad = self._check_samples(inputs, targets, skipped)
            if bad is not None:
                inputs, targets = batch.take(inputs, ~bad), batch.take(targets, ~bad)
                skipped += int(bad.sum())
            try:
                # If no good sample is left, here or on another rank, the step does not take place.
                report = self._learn(inputs, targets, new) if all(new) else self._no_step()
            except NotFiniteError as error:
                if self.on_bad == "raise" or error.bad is None:
                    raise
                if not skipped:
                    self._tell_of_bad_samples(error)
                inputs, targets = batch.take(inputs, ~error.bad), batch.take(targets, ~error.bad)
                skipped += int(error.bad.sum())
            else:
                self.skipped += skipped
                return replace(report, skipped=skipped) if skipped else report

    def _learn(self, inputs: Batch, targets: Batch, new: list[int]) -> Report:
        """A time step that changes all it has to, or nothing."""
        mode = self.model.training
        self._undo.begin()
        try:
            if not mode:
                self.model.train()
            with torch.enable_grad():
                inputs, targets = batch.without_graph(inputs), batch.without_graph(targets)
                return self._time_step(inputs, targets, new)
        except BaseException:
            self._undo.restore()
            if not mode:
                self.model.eval()
            raise

    def _time_step(self, x: Batch, y: Batch, new: list[int]) -> Report:
        joint = self._join(x, y, new)  # the buffer, then X, Y

        passes = [self._differentiate(joint)]  # line 7, n = 1
        loss, buffer_loss = self._means(passes[0], joint)  # raises before anything has changed
        decision = self.when.update(loss + buffer_loss)  # lines 9, 10, 13 and 16 to 21
        event = None if decision is None else events.describe(self, decision)
        self._adviser.look(self, decision, loss, y)
        if self.repeats > 1 or self._searches or self._rescores or decision == "plateau":
            self._undo.keep()  # something can still fail after the first step
        self._descend(joint, loss + buffer_loss)  # line 8
        for _ in range(1, self.repeats):  # line 6, n = 2, 3, ...
            passes.append(self._differentiate(joint))
            self._descend(joint, sum(self._means(passes[-1], joint, len(passes))))
        losses = self._losses_again(joint) if self._rescores else passes[-1]

        consolidated = decision == "plateau" and self.how is not None
        if self.how is not None and consolidated:
            known = self.which.inputs if self.which is not None and joint.held else x
            self.how.consolidate(self.model, known)  # lines 14 and 15
            event = event and event.consolidated_as(self.how)
        if self.which is not None:
            self.which.update(losses)  # line 22
        self.step += 1
        return Report(
            step=self.step,
            loss=loss,
            buffer_loss=buffer_loss if joint.held else math.nan,
            window_loss=loss + buffer_loss,
            window_mean=self.when.window_mean,
            consolidated=consolidated,
            peak=decision == "peak",
            event=event,
        )

    def _join(self, x: Batch, y: Batch, new: list[int]) -> _Joint:
        """The samples held and these new ones, of which there are `new` on each rank."""
        held = len(self.which) if self.which is not None else 0
        if self._ranks is None:
            both = self.which.join(x, y) if self.which is not None else (x, y)
            return _Joint(*both, held, held, new[0])
        if isinstance(self.which, Sharded):
            both = self.which.join_all(x, y, new)
            return _Joint(*both, held, len(self.which.whole), sum(new), self.which.places)
        first = sum(new[: self._ranks.rank])
        return _Joint(x, y, 0, 0, sum(new), torch.arange(first, first + new[self._ranks.rank]))

    def _differentiate(self, joint: _Joint) -> Tensor:
        """The gradients of the objective: mean over the new samples + over the buffer + penalty.

        The answer is the loss of every sample, of all ranks.
        """
        self._clear_gradients()
        if self._ranks is None or joint.places is None:
            losses = self._differentiate_here(joint)
        else:
            learning = (p for group in self.optimizer.param_groups for p in group["params"])
            losses = self._ranks.differentiate(
                lambda: self._differentiate_here(joint),
                joint.places,
                joint.held + joint.new,
                parameters=[*learning, *self._not_optimized],
                buffers=self._written(),
            )
        if self.how is not None:
            self.how.add_gradients(self.model)
        return losses

    def _differentiate_here(self, joint: _Joint) -> Tensor:
        losses = self._losses(joint.inputs, joint.targets)
        counts = (joint.held_here, joint.held, losses.shape[0], joint.new)
        share = _shares(*counts, losses.dtype, losses.device)
        torch.autograd.backward(losses, share)
        return losses.detach()

    def _descend(self, joint: _Joint, loss: float) -> None:
        """A step of the optimizer along the gradients, and back towards what must be kept."""
        if self._searches:  # it evaluates the objective itself, several times
            self.optimizer.step(lambda: sum(self._means(self._differentiate(joint), joint, 2)))
        elif guards.step_is_safe(self.optimizer, loss):
            self.optimizer.step()
        else:
            self._undo.keep()
            self.optimizer.step()
            guards.check_parameters(self.model)
        if self.how is not None:
            self.how.pull_back(self.model, self.optimizer)

    def _clear_gradients(self) -> None:
        """What `optimizer.zero_grad` does, for parameters outside of the optimizer too."""
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = None
        for parameter in self._not_optimized:
            parameter.grad = None

    def _written(self) -> list[Tensor]:
        """The floating point buffers of model and loss, which a forward pass may write to."""
        modules = [self._network, *([self.loss] if isinstance(self.loss, nn.Module) else [])]
        found = (buffer for module in modules for buffer in module.buffers())
        return [buffer for buffer in found if buffer.is_floating_point()]

    @property
    def _rescores(self) -> bool:
        return self.which is not None and self.which.rescore

    def _means(self, losses: Tensor, joint: _Joint, number: int = 1) -> tuple[float, float]:
        """The mean loss of the new samples and of the buffer (0 if empty), if all are finite."""
        values, held = losses.tolist(), joint.held
        new = sum(values[held:]) / (len(values) - held)
        old = sum(values[:held]) / held if held else 0.0
        if math.isfinite(new + old):
            return new, old
        bad = ~losses.isfinite()
        advice, to_blame = "check the inputs and targets", None
        if number > 1:
            advice = "learning diverges: lower the learning rate"
        elif not guards.parameters_are_finite(self.model):
            advice = "the model's parameters are not finite themselves: go back to a saved state"
        elif bad[held:].any() and not bad[:held].any():
            to_blame = (bad if joint.places is None else bad[joint.places])[joint.held_here :]
        raise NotFiniteError(
            f"loss is nan or inf for {int(bad[held:].sum())} of {joint.new} new samples and "
            f"{int(bad[:held].sum())} of {held} samples of the buffer in gradient step {number}; "
            f"nothing was learned: {advice}",
            to_blame,
        )

    def _tell_of_bad_samples(self, error: NotFiniteError) -> None:
        if not self.skipped:
            warnings.warn(
                f"{error}. Such samples are skipped; learner.skipped counts them, and this is "
                "said once",
                stacklevel=3,
            )

    def _no_step(self) -> Report:
        """The report of a time step whose samples were all bad: it did not take place."""
        nan = math.nan
        return Report(self.step, nan, nan, nan, self.when.window_mean, False, False)

    def predict(self, inputs: Batch) -> Any:
        """The model's outputs in eval mode, without gradients; nothing is learned or changed."""
        batch.check("inputs", inputs)
        with torch.no_grad(), evaluating(self.model):
            return batch.call(self._network, inputs)

    def state_dict(self) -> dict[str, Tensor]:
        """Everything the continuation depends on, as flat names to tensors.

        It holds the model, the optimizer, the trigger, the buffer, the importance, the step and
        torch's random generators. As in PyTorch, the tensors are not copies. On several ranks
        it is that of all of them, the same on each, and any number of ranks can continue from it.
        """
        which, how = self.which is not None, self.how is not None
        state = {
            "step": torch.tensor(self.step),
            "parts": torch.tensor([which, how]),
            **nest("model", self._tensors()),
            **nest("optimizer", pack(self.optimizer.state_dict())),
            **nest("random", self._random_states()),
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
            if self._ranks is None:
                self._load(state)
            else:
                self._ranks.do(lambda: self._load(state))
        except BaseException:
            self._load(before)
            raise

    def _load(self, state: Mapping[str, Tensor]) -> None:
        saved, own = part("model", state), self._tensors()
        for name in saved.keys() | own.keys():
            there, here = (_said(found.get(name)) for found in (saved, own))
            if there != here:
                raise ValueError(
                    f"the saved state has {there} for {name!r} and this learner has {here}; "
                    "load it into a learner with the model it was saved from"
                )
        name = ""
        try:
            step = int(state["step"])
            parts: dict[str, Any] = {"which": self.which, "how": self.how}
            for (name, component), there in zip(
                parts.items(), state["parts"].tolist(), strict=True
            ):
                if there != (component is not None):
                    raise ValueError(
                        f"the state was saved {'with' if there else 'without'} a part for "
                        f"{name!r}, unlike this learner; make it of the same parts"
                    )
            with torch.no_grad():
                for key, tensor in own.items():
                    tensor.copy_(saved[key])
            name = "optimizer"
            load_optimizer(self.optimizer, unpack(part(name, state)))
            device = next(self.model.parameters()).device
            for name, component in ({"when": self.when} | parts).items():
                if component is not None:
                    moved = {key: value.to(device) for key, value in part(name, state).items()}
                    component.load_state_dict(moved)
            name = f"random.{0 if self._ranks is None else self._ranks.rank}"
            own_random = part(name, state)
            if own_random or self._ranks is None:  # a rank more than were saved goes on as it is
                load_random_state(own_random)
            self.step = step
        except KeyError as error:
            missing = f"{name}.{error.args[0]}".lstrip(".")
            raise ValueError(f"the saved state lacks {missing!r}") from error

    def _random_states(self) -> dict[str, Tensor]:
        """The random generators of every rank."""
        states = random_state(next(self.model.parameters()).device)
        if self._ranks is None:
            return nest("0", states)
        return {
            f"{rank}.{name}": value
            for name, own in states.items()
            for rank, value in enumerate(self._ranks.stack(own))
        }

    def _tensors(self) -> dict[str, Tensor]:
        """The parameters and buffers of the model, of the loss, and whatever else is optimized.

        Each is there once, by its first name, however many layers share it.
        """
        found = _tensors_of(unwrapped(self.model))
        if isinstance(self.loss, nn.Module):
            found |= nest("loss", _tensors_of(self.loss))
        known = {id(tensor) for tensor in found.values()}
        for group in self.optimizer.param_groups:
            for value in group["params"]:
                if id(value) not in known:
                    found[f"optimized.{len(known)}"] = value
                    known.add(id(value))
        return {name: tensor.detach() for name, tensor in found.items()}

    def _losses(self, x: Batch, y: Batch) -> Tensor:
        """The loss of every sample."""
        samples = (*batch.tensors(x), *batch.tensors(y))
        versions = [column._version for column in samples]
        try:
            outputs = batch.call(self._network, x)
        except Exception as error:
            error.add_note(f"the model was given inputs of {batch.describe(x)} a sample")
            raise
        try:
            losses = self.loss(outputs, y)
        except Exception as error:
            gave = (
                batch.describe(outputs) if isinstance(outputs, Tensor) else type(outputs).__name__
            )
            raise ValueError(
                f"loss refused targets of {batch.describe(y)} a sample with outputs of {gave}: "
                f"{error}; pass targets of the shape and dtype that the loss wants"
            ) from error
        if self.which is not None and versions != [column._version for column in samples]:
            raise ValueError(
                "model or loss writes to its inputs or targets, which would change the samples "
                "that the buffer holds; use operations that are not in place, or clone them first"
            )
        if not isinstance(losses, Tensor) or losses.shape != (batch.rows(x),):
            came = list(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
            raise ValueError(
                f"loss must return one value a sample, shape [{batch.rows(x)}], got {came}; "
                "make it with reduction='none' and take the mean over all but the first dimension"
            )
        if torch.is_grad_enabled() and not losses.requires_grad:
            raise ValueError(
                "loss does not depend on any parameter that learns; check that the model's outputs "
                "are not detached and that loss uses them"
            )
        return losses

    def _losses_again(self, joint: _Joint) -> Tensor:
        """The loss of every sample with the parameters as they now are."""

        def here() -> Tensor:
            with torch.no_grad(), evaluating(self.model):
                return self._losses(joint.inputs, joint.targets)

        if self._ranks is None or joint.places is None:
            losses = here()
        else:
            losses = self._ranks.add(here, joint.places, joint.held + joint.new)
        self._means(losses, joint, self.repeats + 1)
        return losses

    def _check_samples(
        self, inputs: Batch, targets: Batch, skipped: int
    ) -> tuple[list[int], Tensor | None]:
        """How many good samples each rank has, and which are bad here.

        It raises if they do not fit each other and the buffer.
        """
        if self._ranks is not None:
            found: list[Tensor | None] = [None]

            def good() -> int:
                if skipped and not batch.rows(inputs):
                    return 0
                found[0] = self._check_own(inputs, targets)
                return batch.rows(inputs) - (0 if found[0] is None else int(found[0].sum()))

            return self._ranks.gather(good), found[0]
        if Ranks.joined(self.model) is not None:
            raise RuntimeError(
                "a process group was initialised after this learner was made, which does not know "
                "of it; call init_process_group first"
            )
        if skipped and not batch.rows(inputs):
            return [0], None
        bad = self._check_own(inputs, targets)
        return [batch.rows(inputs) - (0 if bad is None else int(bad.sum()))], bad

    def _check_own(self, inputs: Batch, targets: Batch) -> Tensor | None:
        """Which samples hold a nan or inf, if they fit each other and the buffer."""
        if torch.is_inference_mode_enabled():
            raise RuntimeError("learn needs gradients: call it outside of torch.inference_mode")
        samples, labels = batch.check("inputs", inputs), batch.check("targets", targets)
        if samples != labels:
            raise ValueError(
                f"inputs has {samples} rows and targets {labels}; both need one row a sample"
            )
        if self.which is not None:
            self.which.check(inputs, targets)
        bad = batch.not_finite([*batch.tensors(inputs), *batch.tensors(targets)])
        if bad is not None:
            error = NotFiniteError(
                f"inputs or targets hold a nan or inf in {int(bad.sum())} of {samples} new samples "
                f"(row {int(bad.nonzero()[0])} is the first); nothing was learned from them",
                bad,
            )
            if self.on_bad == "raise":
                raise error
            self._tell_of_bad_samples(error)
        return bad


@lru_cache(maxsize=16)
def _shares(
    here: int, held: int, rows: int, new: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """What each loss weighs in the mean over all that is held plus the mean over all new samples.

    Of the `rows` samples on this rank the first `here` are held.
    """
    share = torch.full((rows,), 1 / new, dtype=dtype, device=device)
    share[:here] = 1 / max(1, held)
    return share


def _tensors_of(module: nn.Module) -> dict[str, Tensor]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _said(tensor: Tensor | None) -> str:
    return "nothing" if tensor is None else f"{tensor.dtype} {list(tensor.shape)}"
