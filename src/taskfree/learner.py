"""The learner: Algorithm 1 of the paper, one time step per call."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.optim import LBFGS, Optimizer

from taskfree import defaults
from taskfree._core import batch, finite, validation
from taskfree._core.batch import Batch
from taskfree._core.distributed import Joint, process_group
from taskfree._core.errors import NotFiniteError
from taskfree._core.model import evaluating
from taskfree._core.rollback import Rollback
from taskfree._learner import state as learner_state
from taskfree._learner.objective import Objective, learned_tensors
from taskfree.defaults import Auto
from taskfree.how import Regularizer
from taskfree.observe.advice import Adviser
from taskfree.observe.events import Report, describe
from taskfree.when import Trigger
from taskfree.which import Buffer
from taskfree.which.distributed import distribute

__all__ = ["Learner"]

OnBad: TypeAlias = Literal["raise", "skip"]


class Learner:
    """Trains a model on a stream without task labels and without catastrophic forgetting.

    Defaults: `when=Settled()`, `which=Hardest(30)`, `how=MAS(0.01, penalty="relative")`. Leave
    components out for the paper's baselines: `how=None` is online learning with experience replay,
    `which=None, how=None` is plain online learning, bit for bit.

    Args:
        model: any module; its trainable parameters are learned.
        optimizer: any optimizer of `torch.optim` over the model's parameters.
        loss: a function of outputs and targets that returns one value per sample.
        when: the trigger, which decides when to consolidate; None never consolidates.
        which: the buffer of samples to replay; None keeps no samples, and importance is estimated
            on the new ones.
        how: the regularizer, which protects what was learned; None protects nothing.
        repeats: gradient steps per time step, the paper's N.
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
        when: Trigger | Auto | None = "auto",
        which: Buffer | Auto | None = "auto",
        how: Regularizer | Auto | None = "auto",
        repeats: int = 1,
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
        self._adviser = Adviser()
        self._objective = Objective(model, optimizer, self._processes)
        components = [self.when, self.which, getattr(self.which, "whole", None), self.how]
        self._rollback = Rollback(
            [model, loss] if isinstance(loss, nn.Module) else [model],
            optimizer,
            [component for component in components if component is not None],
        )
        # An optimizer with a line search evaluates the objective several times per step.
        self._searches = isinstance(optimizer, LBFGS)
        if self._searches and getattr(self.how, "penalty", "") == "gradient":
            raise ValueError(
                "how=MAS(penalty='gradient') adds to the gradients what LBFGS does not find in the "
                "objective; use penalty='proximal'"
            )
        self._processes.synchronize(learned_tensors(model, optimizer, loss))

    def learn(self, inputs: Batch, targets: Batch) -> Report:
        """Learn from the new samples of one time step: Algorithm 1, lines 5 to 22."""
        skipped = 0
        while True:
            counts, bad = self._check_samples(inputs, targets, skipped)
            if bad is not None:
                inputs, targets = batch.take(inputs, ~bad), batch.take(targets, ~bad)
                skipped += int(bad.sum())
            try:
                # Without a good sample, here or on another rank, there is no time step.
                report = self._learn(inputs, targets, counts) if all(counts) else self._idle()
            except NotFiniteError as error:
                if self.on_bad == "raise" or error.bad is None:
                    raise
                if not skipped:
                    self._warn_of_bad_samples(error)
                inputs, targets = batch.take(inputs, ~error.bad), batch.take(targets, ~error.bad)
                skipped += int(error.bad.sum())
            else:
                self.skipped += skipped
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

        losses = self._differentiate(joint)  # line 7, n = 1
        loss, buffer_loss = objective.means(losses, joint)  # raises before anything has changed
        decision = self.when.update(loss + buffer_loss)  # lines 9, 10, 13 and 16 to 21
        event = None if decision is None else describe(self, decision)
        self._adviser.look(self, decision, loss, y)
        if self.repeats > 1 or self._searches or rescore or decision == "plateau":
            self._rollback.save_parameters()  # something can still fail after the first step
        self._descend(joint, loss + buffer_loss)  # line 8
        for n in range(2, self.repeats + 1):  # line 6, n = 2, 3, ...
            joint = self._processes.redraw(self.which, joint)
            losses = self._differentiate(joint)
            self._descend(joint, sum(objective.means(losses, joint, n)))
        if rescore:
            losses = objective.evaluate(joint, self.loss, self.repeats + 1)

        consolidated = decision == "plateau" and self.how is not None
        if self.how is not None and consolidated:
            known = self.which.inputs if self.which is not None and joint.replayed else x
            self.how.consolidate(self.model, known)  # lines 14 and 15
            event = event and event.consolidated_by(self.how)
        if self.which is not None:
            self.which.update(losses)  # line 22
        self.step += 1
        return Report(
            step=self.step,
            loss=loss,
            buffer_loss=buffer_loss if joint.replayed else math.nan,
            window_loss=loss + buffer_loss,
            window_mean=self.when.window_mean,
            consolidated=consolidated,
            peak=decision == "peak",
            event=event,
        )

    def _differentiate(self, joint: Joint) -> Tensor:
        """Set the gradients of the objective with penalty; return the loss of every sample."""
        losses = self._objective.differentiate(joint, self.loss, self.optimizer)
        if self.how is not None:
            self.how.add_penalty_gradients(self.model)
        return losses

    def _descend(self, joint: Joint, loss: float) -> None:
        """An optimizer step along the gradients, then the proximal step of the penalty."""
        if self._searches:  # it evaluates the objective itself, several times
            means = self._objective.means
            self.optimizer.step(lambda: sum(means(self._differentiate(joint), joint, 2)))
        elif finite.step_is_safe(self.optimizer, loss):
            self.optimizer.step()
        else:
            self._rollback.save_parameters()
            self.optimizer.step()
            finite.check_parameters(self.model)
        if self.how is not None:
            self.how.proximal_step(self.model, self.optimizer)

    def _check_samples(
        self, inputs: Batch, targets: Batch, skipped: int
    ) -> tuple[list[int], Tensor | None]:
        """How many samples each rank has, and a mask of those to skip here."""
        bad: list[Tensor | None] = [None]

        def count() -> int:
            if skipped and not batch.rows(inputs):
                return 0
            bad[0] = self._check_own(inputs, targets)
            return batch.rows(inputs) - (0 if bad[0] is None else int(bad[0].sum()))

        return self._processes.gather(count), bad[0]

    def _check_own(self, inputs: Batch, targets: Batch) -> Tensor | None:
        """A mask of the samples with a nan or inf, if they fit each other and the buffer."""
        samples = validation.samples(inputs, targets)
        if self.which is not None:
            self.which.check(inputs, targets)
        bad = batch.nonfinite_rows([*batch.tensors(inputs), *batch.tensors(targets)])
        if bad is not None:
            error = NotFiniteError(
                f"inputs or targets hold a nan or inf in {int(bad.sum())} of {samples} new samples "
                f"(row {int(bad.nonzero()[0])} is the first); nothing was learned from them",
                bad,
            )
            if self.on_bad == "raise":
                raise error
            self._warn_of_bad_samples(error)
        return bad

    def _warn_of_bad_samples(self, error: NotFiniteError) -> None:
        if not self.skipped:
            message = f"{error}. Such samples are skipped and counted in learner.skipped"
            warnings.warn(f"{message} (said once)", stacklevel=3)

    def _idle(self) -> Report:
        """The report of a time step that did not take place: all its samples were bad."""
        nan = math.nan
        return Report(self.step, nan, nan, nan, self.when.window_mean, False, False)

    def predict(self, inputs: Batch) -> Any:
        """The model's outputs in eval mode, without gradients. Nothing is learned or changed."""
        batch.check("inputs", inputs)
        with torch.no_grad(), evaluating(self.model):
            return batch.call(self._objective.network, inputs)

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
