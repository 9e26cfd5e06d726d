"""The learner: Algorithm 1 of the paper, one time step per call."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from taskfree import defaults
from taskfree._core import batch, validation
from taskfree._core.batch import Batch
from taskfree._core.distributed import Joint, process_group
from taskfree._core.rollback import Rollback
from taskfree._learner import state as learner_state
from taskfree._learner.admission import learn_from_good
from taskfree._learner.descent import Descent
from taskfree._learner.objective import Objective, learned_tensors
from taskfree._learner.serving import Serving
from taskfree._learner.snapshot import Prepare, Snapshot, prepared
from taskfree.defaults import Auto
from taskfree.how import MAS, Regularizer, Teacher
from taskfree.observe.advice import Adviser
from taskfree.observe.events import Report, describe
from taskfree.when import Plateau, Trigger
from taskfree.which import Buffer, Hardest
from taskfree.which.distributed import distribute

__all__ = ["Learner"]

OnBad: TypeAlias = Literal["raise", "skip"]


class Learner:
    """Trains a model on a stream without task labels and without catastrophic forgetting.

    Defaults: `when=Settled()`, `which=Reservoir(500, balanced="auto")` and `how=[Teacher(),
    MAS(0.01, penalty="relative", cover=200)]`. `Learner.paper` is the paper's own learner. Leave
    components out for baselines: `how=None` is experience replay, `which=None, how=None` is plain
    online learning, bit for bit.

    Args:
        model: any module; its trainable parameters are learned.
        optimizer: any optimizer of `torch.optim` over the model's parameters.
        loss: a function of outputs and targets that returns one value per sample.
        when: the trigger, which decides when to consolidate; None never consolidates.
        which: the buffer of samples to replay; None keeps no samples, and importance is estimated
            on the new ones.
        how: the regularizer, which protects what was learned, or a list of several; None protects
            nothing.
        repeats: gradient steps per time step, the paper's N.
        prepare: a function of inputs that returns what the model takes. The buffer holds the inputs
            as they come: bytes, for example, of which `prepare` makes numbers when they are needed.
        clip: the largest norm of the gradients; larger ones are scaled down to it.
        micro_batch: how many samples pass through the model at once; gradients are accumulated
            over all samples of a gradient step. None for all at once.
        on_bad: how to treat new samples with a nan or inf in inputs, targets or loss: `"raise"` a
            NotFiniteError, or `"skip"` them and learn from the rest as if they had not come.
            Skipped samples are counted in `skipped`, with one warning.

    In a process group of `torch.distributed`, each rank learns from its own shard of the stream,
    and all ranks together learn as one process would from the whole stream. `learn`, `state_dict`
    and `load_state_dict` are then called by all ranks.

    A call that raises leaves the learner as it was before the call, with one exception: with
    `repeats=1`, parameters are copied only in steps that consolidate, rescore, or might overflow.
    An interrupt, or an error of the optimizer itself, in the middle of its update is then not
    undone.

    >>> _ = torch.manual_seed(0)
    >>> model = nn.Linear(2, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    >>> learner = Learner(model, optimizer, loss=nn.CrossEntropyLoss(reduction="none"))
    >>> for _ in range(200):
    ...     x = torch.randn(8, 2)
    ...     report = learner.learn(x, (x[:, 0] > 0).long())
    >>> report.step, report.loss < 0.2, len(learner.which)
    (200, True, 500)
    >>> learner.predict(torch.tensor([[1.0, 0.0]])).argmax(1)
    tensor([1])
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        *,
        loss: Callable[[Any, Any], Tensor],
        when: Trigger | Auto | None = "auto",
        which: Buffer | Auto | None = "auto",
        how: Regularizer | list[Regularizer] | Auto | None = "auto",
        repeats: int = 1,
        prepare: Prepare | None = None,
        clip: float | None = None,
        micro_batch: int | None = None,
        on_bad: OnBad = "raise",
    ) -> None:
        validation.learner(model, optimizer, loss, {"when": when, "which": which, "how": how})
        self._processes = process_group(model)
        self.model, self.optimizer, self.loss = model, optimizer, loss
        self.when = defaults.trigger(when)
        self.which = distribute(defaults.buffer(which), self._processes)
        self.how = defaults.regularizer(how)
        self.repeats = validation.integer("repeats", repeats, least=1)
        self.on_bad = validation.choice("on_bad", on_bad, ("raise", "skip"))
        self.step = 0
        self.skipped = 0
        self._prepare, self._adviser = prepare, Adviser()
        self._objective = Objective(model, optimizer, self._processes, prepare, micro_batch)
        hows = getattr(self.how, "parts", [self.how])
        teacher = next((part for part in hows if isinstance(part, Teacher)), None)
        self._serving = Serving(model, teacher, self._processes, prepare)
        components = [self.when, self.which, getattr(self.which, "whole", None), *hows]
        self._rollback = Rollback(
            [model, loss] if isinstance(loss, nn.Module) else [model],
            optimizer,
            [component for component in components if component is not None],
        )
        self._descent = Descent(model, optimizer, self._rollback, hows, clip)
        self._processes.synchronize(learned_tensors(model, optimizer, loss))

    @classmethod
    def paper(
        cls,
        model: nn.Module,
        optimizer: Optimizer,
        *,
        loss: Callable[[Any, Any], Tensor],
        capacity: int = 30,
        strength: float = 0.5,
        mean: float = 0.5,
        variance: float = 0.02,
        balanced: bool = False,
        **options: Any,
    ) -> Learner:
        """The paper's own learner, exact to the letter, with the settings of its Turtlebot.

        `Plateau(5, mean, variance)`, `Hardest(capacity, balanced)`, and `MAS(strength)` with the
        gradient of the penalty. The paper's other settings: TV series, `capacity=100,
        strength=100, mean=0.3, variance=0.1`; corridors, `capacity=40, variance=0.1`. The explicit
        penalty diverges where lr * strength * importance exceeds 2.

        >>> model = nn.Linear(2, 2)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        >>> loss = nn.CrossEntropyLoss(reduction="none")
        >>> learner = Learner.paper(model, optimizer, loss=loss, repeats=3)
        >>> learner.how.penalty, learner.which.capacity
        ('gradient', 30)
        """
        when = Plateau(window=5, mean=mean, variance=variance)
        which, how = Hardest(capacity, balanced=balanced), MAS(strength, penalty="gradient")
        return cls(model, optimizer, loss=loss, when=when, which=which, how=how, **options)

    def learn(self, inputs: Batch, targets: Batch) -> Report:
        """Learn from the new samples of one time step: Algorithm 1, lines 5 to 22."""
        with self._serving.learning(lambda: self.step):
            report, skipped = learn_from_good(
                self._learn,
                inputs,
                targets,
                which=self.which,
                processes=self._processes,
                skip=self.on_bad == "skip",
                silent=self.skipped > 0,
            )
            self.skipped += skipped
        if report is None:  # no sample was good, here or on another rank
            nan = math.nan
            report = Report(self.step, nan, nan, nan, self.when.window_mean, False, False)
        return replace(report, skipped=skipped) if skipped else report

    def _learn(self, inputs: Batch, targets: Batch, counts: list[int]) -> Report:
        """A time step that changes all it has to, or nothing."""
        training = self.model.training
        self._rollback.begin()
        try:
            if not training:
                self.model.train()
            with torch.enable_grad():
                return self._time_step(batch.detach(inputs), batch.detach(targets), counts)
        except BaseException:
            self._rollback.restore()
            if not training:
                self.model.eval()
            raise

    def _time_step(self, x: Batch, y: Batch, counts: list[int]) -> Report:
        objective, rescore = self._objective, self.which is not None and self.which.rescore
        joint = self._processes.join(self.which, x, y, counts)  # from the buffer, then X, Y

        losses = self._differentiate(joint, 1)  # line 7, n = 1
        loss, buffer_loss = objective.means(losses, joint)  # raises before anything has changed
        served = self._serving.compare(self.step, x, y, self.loss)
        decision = self.when.update(loss + buffer_loss)  # lines 9, 10, 13 and 16 to 21
        event = None if decision is None else describe(self, decision)
        self._adviser.look(self, decision, loss, y)
        if self.repeats > 1 or self._descent.searches or rescore or decision == "plateau":
            self._rollback.save_parameters()  # something can still fail after the first step
        self._descend(joint, 1, loss + buffer_loss)  # line 8
        for n in range(2, self.repeats + 1):  # line 6, n = 2, 3, ...
            joint = self._processes.redraw(self.which, joint)
            losses = self._differentiate(joint, n)
            self._descend(joint, n, sum(objective.means(losses, joint, n)))
        if rescore:
            losses = objective.evaluate(joint, self.loss, self.repeats + 1)

        consolidated = decision == "plateau" and self.how is not None
        if self.how is not None and consolidated:
            known = self.which.inputs if self.which is not None and joint.replayed else x
            self.how.consolidate(self.model, prepared(self._prepare, known))  # lines 14 and 15
            event = event and event.consolidated_by(self.how)
        if self.which is not None:
            self.which.update(losses)  # line 22
        known_loss = buffer_loss if joint.replayed else math.nan
        if self.how is not None:
            self.how.after_time_step(self.model, loss, known_loss)
        self._serving.losses = served
        self.step += 1
        return Report(
            step=self.step,
            loss=loss,
            buffer_loss=known_loss,
            window_loss=loss + buffer_loss,
            window_mean=self.when.window_mean,
            consolidated=consolidated,
            peak=decision == "peak",
            event=event,
        )

    def _differentiate(self, joint: Joint, n: int) -> Tensor:
        """Set the gradients of the objective with penalty; return the loss of every sample."""
        which, how, time = self.which, self.how, self.repeats * self.step + n
        if how is None:
            return self._objective.differentiate(joint, self.loss, self.optimizer)
        recalled = which.recall(time) if which is not None and joint.replayed else None
        said: list[list[Tensor]] = []

        def hold(outputs: Any, losses: Tensor, rows: slice) -> None:
            if recalled is not None:
                remembered = how.before_backward(outputs, losses, recalled.part(rows))
                said.extend([] if remembered is None else [remembered])

        losses = self._objective.differentiate(joint, self.loss, self.optimizer, hold)
        how.after_backward(self.model)
        if which is not None and said:
            which.remember(
                [torch.cat(p) for p in zip(*said, strict=True)] if said[1:] else said[0], time
            )
        return losses

    def _descend(self, joint: Joint, n: int, loss: float) -> None:
        """An optimizer step along the gradients, then the proximal step of the penalty."""
        means = self._objective.means
        self._descent.step(
            self.optimizer, loss, lambda: sum(means(self._differentiate(joint, n), joint, 2))
        )
        if self.how is not None:
            self.how.after_step(self.model, self.optimizer)

    def predict(self, inputs: Batch) -> Any:
        """The outputs in eval mode, without gradients. Nothing is learned or changed.

        With a `Teacher`, the model, the teacher or the mean of both answers: whichever had the
        lowest loss on the last new samples before they were learned; the teacher also if its loss
        is at most a tenth higher. Any thread may call this while another one learns: it is then
        answered by the model of the last whole time step. Only the first such call in 100 time
        steps waits, for the end of the present one.
        """
        batch.check("inputs", inputs)
        return self._serving.predict(inputs, lambda: self.step)

    def snapshot(self) -> Snapshot:
        """An immutable copy of what answers now, for other threads and processes."""
        return self._serving.snapshot(lambda: self.step)

    def state_dict(self) -> dict[str, Tensor]:
        """Everything the continuation depends on, as a flat dict from names to tensors.

        Model, optimizer, trigger, buffer, regularizer, step and torch's random generators. As in
        PyTorch, the tensors are not copies. On several ranks the state is that of all of them and
        the same on each; any number of ranks can continue from it.
        """
        return learner_state.save(self, self._processes)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue bit for bit from a saved state; if it does not fit, nothing changes.

        The learner must have been made of the same components: the state holds their contents,
        not their settings.
        """
        before = {name: tensor.clone() for name, tensor in self.state_dict().items()}
        try:
            self._processes.call(lambda: learner_state.load(self, self._processes, state))
        except BaseException:
            learner_state.load(self, self._processes, before)
            raise
