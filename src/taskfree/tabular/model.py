"""What learns rows: a network, cheap experts beside it, and their mixture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from taskfree.grow import grow, widen
from taskfree.how import MAS, Regularizer, Teacher
from taskfree.learner import Learner
from taskfree.observe.events import Report
from taskfree.tabular.columns import ABSENT
from taskfree.tabular.experts import (
    Expert,
    Frequencies,
    KeyedAverage,
    KeyedFrequencies,
    LabelHistory,
    LastValue,
    LeastSquares,
    LinearModel,
    Mean,
    RecentFrequencies,
    RecentMean,
    RecentNetwork,
    RowBatch,
    SameAsLast,
    SoftmaxModel,
    ValueHistory,
)
from taskfree.tabular.mixture import LabelMixture, ValueMixture
from taskfree.tabular.options import Options
from taskfree.tabular.targets import LabelEncoder, RegressionTarget
from taskfree.which import Reservoir

__all__ = ["StreamModel", "Task"]

Task: TypeAlias = Literal["classification", "regression"]

NETWORK = "network"
"""The name of the network among the experts."""
REPLAY = 64
"""Rows that are replayed in each step."""
CHUNK = 64
"""Rows of any time are predicted in chunks of this size."""
COVER = 200
"""From this many kept rows on, there is no penalty on the weights."""


class StreamModel:
    """A network with its learner, the experts beside it, and the meaning of its outputs.

    A row is *next* if it comes right after those that were learned: then all experts answer, mixed
    by how well they predicted lately. Of any other row the network alone is asked, which remembers.

    Args:
        task: `"classification"` or `"regression"`.
        make: creates the network from the number of inputs and outputs; weights are drawn from
            torch's generator.
        inputs: how many inputs, or channels of an image, there are.
        outputs: how many classes are known already.
        prepare: a function of inputs that returns them as the network takes them, standardized by
            the statistics of the moment.
        features: how many numbers a row has once its inputs are prepared and flattened.
        keys: what experts go by, such as the names of columns of categories.
        form: how targets that are numbers are written: see `values.kind_of`.
        options: how it learns.

    >>> from taskfree.tabular.networks import mlp
    >>> model = StreamModel("classification", mlp, inputs=2)
    >>> x = torch.tensor([[-1.0, 0.0], [1.0, 0.0]])
    >>> for _ in range(100):
    ...     answers, report = model.step(x, ["left", "right"])
    >>> [model.targets.names[at] for at in answers], [model.targets.names[at] for at in
    ...     model.predict(x)]
    (['left', 'right'], ['left', 'right'])
    """

    def __init__(
        self,
        task: Task,
        make: Callable[[int, int], nn.Module],
        inputs: int,
        *,
        outputs: int = 0,
        prepare: Callable[[Any], Any] | None = None,
        features: int | None = None,
        keys: Sequence[str] = (),
        form: str = "",
        options: Options | None = None,
    ) -> None:
        options = options or Options()
        if isinstance(make, nn.Module):
            raise TypeError(
                f"model must be a function that creates a network from the number of inputs and "
                f"outputs, got the network {type(make).__name__} itself; pass lambda inputs, "
                "outputs: ..."
            )
        classification = task == "classification"
        self.targets = LabelEncoder() if classification else RegressionTarget(form)
        self._outputs = max(1, outputs)
        model = make(inputs, self._outputs)
        if classification and not any(isinstance(m, nn.Linear) for m in model.modules()):
            raise ValueError(
                "model has no linear layer: the last one is the output layer, which grows with the "
                "classes"
            )
        self._prepare, self._inputs = prepare, inputs
        loss = nn.CrossEntropyLoss(reduction="none")
        size = options.buffer_size
        self.learner = Learner(
            model,
            torch.optim.Adam(model.parameters(), lr=options.lr, fused=True),
            loss=_SmoothL1(self.targets) if isinstance(self.targets, RegressionTarget) else loss,
            which=Reservoir(size, replay=REPLAY, seed=options.seed) if size else None,
            how=_regularizers(options),
            prepare=prepare,
        )
        self._balance = options.balance
        self._make_experts(inputs if features is None else features, keys, options.seed)

    def _make_experts(self, features: int, keys: Sequence[str], seed: int) -> None:
        self.history: LabelHistory | ValueHistory
        self.mixture: LabelMixture | ValueMixture
        experts: list[Expert]
        if isinstance(self.targets, RegressionTarget):
            scaler = self.targets.scaler
            self.history = ValueHistory(scaler)
            keyed = [
                KeyedAverage(key, at, scaler, last)
                for at, key in enumerate(keys)
                for last in (False, True)
            ]
            experts = [
                Mean(scaler), LastValue(), RecentMean(), LinearModel(scaler), LeastSquares(scaler),
                *keyed, RecentNetwork(features + self.history.width, scaler, seed),
            ]  # fmt: skip
        else:
            self.history, counts = LabelHistory(), Frequencies()
            experts = [
                counts, SameAsLast(counts), RecentFrequencies(counts), SoftmaxModel(adaptive=True),
                SoftmaxModel(adaptive=False),
                *(KeyedFrequencies(key, at, counts) for at, key in enumerate(keys)),
                RecentNetwork(features + self.history.width, None, seed),
            ]  # fmt: skip
        self.experts = experts
        self.names = [NETWORK, *(expert.name for expert in experts)]
        """The names of the experts, the network's first."""
        regression = isinstance(self.targets, RegressionTarget)
        simple = [name == SameAsLast.name for name in self.names]
        initial = [len(self.names) if one else 1.0 for one in simple]  # as much as all others
        self.mixture = (ValueMixture if regression else LabelMixture)(initial)
        self._scores = torch.zeros(len(self.names), dtype=torch.float64)
        self._count = 0

    def step(
        self, inputs: Tensor, targets: Sequence[Any], keys: Sequence[Sequence[str | None]] = ()
    ) -> tuple[Tensor, Report]:
        """Predict each row before its target is known, then learn them all.

        Args:
            inputs: of rows that come next, in their order.
            targets: as `targets` has read them.
            keys: by column, the categories of the rows.

        Returns:
            The class index of each row, -1 if none is known yet; or its value. And the report of
            the learner.
        """
        before = len(getattr(self.targets, "names", ()))
        self._fit(inputs)
        encoded = self.targets.encode(targets)
        rows = RowBatch(self._features(inputs), self.history.look(encoded), keys)
        said = self._say(inputs, rows, before)
        report = self.learn(inputs, encoded)
        answers = self._label(self.mixture.score(said, encoded))
        self._add_scores(said, encoded)
        for expert in self.experts:
            expert.learn(rows, encoded)
        self.history.learn(encoded)
        return answers, report

    def _features(self, inputs: Tensor) -> Tensor:
        with torch.no_grad():
            return (self._prepare(inputs) if self._prepare else inputs).flatten(1).float()

    def _fit(self, inputs: Tensor) -> None:
        """Let the network take as many inputs as rows have by now."""
        if inputs.dim() == 2 and inputs.shape[1] > self._inputs:
            widen(self.learner, inputs.shape[1], fill=ABSENT)
            self._inputs = inputs.shape[1]

    def _say(self, inputs: Tensor, rows: RowBatch, classes: int) -> list[Tensor]:
        """What the network and each expert say of rows."""
        outputs: Tensor = self.learner.predict(inputs)
        if isinstance(self.targets, RegressionTarget):
            network = self.targets.restore(outputs[:, 0])
        else:
            network = outputs[:, :classes].double().softmax(1)
        return [network, *(expert.predict(rows) for expert in self.experts)]

    def learn(self, inputs: Tensor, targets: Tensor) -> Report:
        """Learn rows that `targets` has encoded, in any order, by the network alone."""
        self._fit(inputs)
        if isinstance(self.targets, RegressionTarget):
            self.targets.scaler.add(targets[:, None], None)
        elif len(self.targets.names) > self._outputs:
            grow(self.learner, len(self.targets.names))
            self._outputs = len(self.targets.names)
        return self.learner.learn(inputs, targets)

    def _label(self, answers: Tensor) -> Tensor:
        """The most probable class of each row, -1 if none is known yet; or its value."""
        if answers.dim() == 1:
            return answers
        if self._balance and answers.shape[1]:  # by how much more probable than usual
            usual = next(e for e in self.experts if isinstance(e, Frequencies)).shares
            shares = torch.nn.functional.pad(usual, (0, answers.shape[1] - len(usual)))
            answers = answers / shares.clamp_min(1e-6)
        return _most_probable(answers)

    def _add_scores(self, said: list[Tensor], targets: Tensor) -> None:
        self._count += len(targets)
        plain = [each if each.dim() == 1 else _most_probable(each) for each in said]
        found = torch.stack(plain)
        scores = (found - targets).abs() if found.is_floating_point() else found == targets
        self._scores += scores.sum(1)

    @property
    def score_by_expert(self) -> dict[str, float]:
        """The accuracy, or the mean absolute error, of each expert over all rows so far."""
        return dict(zip(self.names, (self._scores / max(1, self._count)).tolist(), strict=True))

    @property
    def trust(self) -> dict[str, float]:
        """The weight of each expert in the next answer, the highest first."""
        pairs = zip(self.names, self.mixture.weights, strict=True)
        return dict(sorted(pairs, key=lambda pair: -pair[1]))

    def predict_next(self, inputs: Tensor, keys: Sequence[Sequence[str | None]] = ()) -> Tensor:
        """The same as `predict`, by the mixture, for rows right after those that were learned."""
        self._fit(inputs)
        return self._label(self._mix(inputs, keys))

    def next_probabilities(
        self, inputs: Tensor, keys: Sequence[Sequence[str | None]] = ()
    ) -> Tensor:
        """The probability of each class, for rows right after those that were learned."""
        return self._mix(inputs, keys)

    def _mix(self, inputs: Tensor, keys: Sequence[Sequence[str | None]]) -> Tensor:
        rows = RowBatch(self._features(inputs), self.history.now(len(inputs)), keys)
        classes = len(getattr(self.targets, "names", ()))
        return self.mixture.answer(self._say(inputs, rows, classes))

    def predict(self, inputs: Tensor) -> Tensor:
        """The class index of each row by the network, -1 if none is known yet; or its value."""
        if isinstance(self.targets, RegressionTarget):
            return self.targets.restore(self._outputs_of(inputs)[:, 0])
        return self._label(self.probabilities(inputs))

    def probabilities(self, inputs: Tensor) -> Tensor:
        """The probability of each class learned so far, by the network."""
        if not isinstance(self.targets, LabelEncoder):
            raise ValueError("a target that is a number has no probabilities; call predict")
        return self._outputs_of(inputs)[:, : len(self.targets.names)].double().softmax(1)

    def _outputs_of(self, inputs: Tensor) -> Tensor:
        """The network's outputs, in chunks of one size: those of a row do not depend on others."""
        chunks = []
        for chunk in torch.split(inputs, CHUNK):
            padded = torch.cat([chunk, chunk[:1].expand(CHUNK - len(chunk), *chunk.shape[1:])])
            outputs: Tensor = self.learner.predict(padded)
            chunks.append(outputs[: len(chunk)])
        return torch.cat(chunks)

    def state_dict(self) -> dict[str, Any]:
        """What the experts have learned, and how far each is trusted; the learner has its own."""
        return {
            "history": self.history.state_dict(),
            "mixture": self.mixture.state_dict(),
            "experts": [expert.state_dict() for expert in self.experts],
            "scores": self._scores,
            "count": self._count,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.history.load_state_dict(state["history"])
        self.mixture.load_state_dict(state["mixture"])
        for expert, saved in zip(self.experts, state["experts"], strict=True):
            expert.load_state_dict(saved)
        self._scores, self._count = state["scores"].clone(), state["count"]


def _most_probable(probabilities: Tensor) -> Tensor:
    """The class of each row, -1 if none is known."""
    if not probabilities.shape[1]:
        return torch.full((len(probabilities),), -1)
    return probabilities.argmax(1)


def _regularizers(options: Options) -> list[Regularizer] | None:
    """A teacher with a buffer, and MAS with a strength; None without either."""
    parts: list[Regularizer] = [Teacher()] if options.buffer_size else []
    if options.strength:
        parts.append(MAS(options.strength, penalty="relative", cover=COVER))
    return parts or None


class _SmoothL1:
    """The smooth L1 loss in the target's current scale."""

    def __init__(self, target: RegressionTarget) -> None:
        self.target = target

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """One loss per sample."""
        wanted = self.target.standardize(targets)
        return nn.functional.smooth_l1_loss(outputs[:, 0], wanted, reduction="none")
