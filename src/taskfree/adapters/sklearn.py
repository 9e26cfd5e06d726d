"""For scikit-learn: a network that learns by `partial_fit`, and keeps what it learned before.

>>> from sklearn.datasets import load_digits
>>> X, y = load_digits(return_X_y=True)
>>> model = Classifier()
>>> for digit in range(10):
...     model = model.partial_fit(X[y == digit], y[y == digit])
>>> float(model.score(X, y)) > 0.5
True
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from taskfree import arguments
from taskfree.feed import models
from taskfree.feed.encode import Classes, Running
from taskfree.feed.online import Online, Task

__all__ = ["Classifier", "Regressor"]


class _Network(BaseEstimator):  # type: ignore[misc]
    """What the classifier and the regressor share."""

    _task: Task
    listed_: list[Any]

    def __init__(
        self,
        model: Callable[[int, int], nn.Module] | None = None,
        *,
        lr: float = 0.01,
        batch: int = 10,
        buffer: int = 100,
        strength: float = 0.01,
        passes: int = 10,
        random_state: int = 0,
    ) -> None:
        self.model = model
        self.lr = lr
        self.batch = batch
        self.buffer = buffer
        self.strength = strength
        self.passes = passes
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Begin anew and learn these samples, `passes` times, each time in another order."""
        passes = arguments.whole("passes", self.passes, least=1)
        inputs, y = self._checked(X, y, first=True)
        self._start(inputs)
        draw = np.random.default_rng(self.random_state)
        for _ in range(passes):
            order = draw.permutation(len(y))
            self._learn(inputs[order], y[order])
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Go on with these samples, in their order, each seen once.

        `classes` need not be said. Those that are have a probability of 0 until their first sample
        comes: a network that has outputs for them before learns that they never do.
        """
        first = not hasattr(self, "online_")
        inputs, y = self._checked(X, y, first)
        if first:
            self._start(inputs)
        if classes is not None:
            self.listed_ = [*self.listed_, *np.asarray(classes).tolist()]
        self._learn(inputs, y)
        return self

    def _start(self, inputs: Tensor) -> None:
        self.scale_ = Running(inputs.shape[1])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(arguments.whole("random_state", self.random_state, least=0))
            self.online_ = Online(
                self._task,
                self.model or models.mlp,
                inputs.shape[1],
                scale=self.scale_,
                lr=arguments.number("lr", self.lr, above=0),
                buffer=arguments.whole("buffer", self.buffer, least=0),
                strength=arguments.number("strength", self.strength, least=0),
                seed=self.random_state,
            )
        self.listed_ = []

    def _checked(self, X: Any, y: Any, first: bool) -> tuple[Tensor, Any]:
        arguments.whole("batch", self.batch, least=1)
        numeric = self._task == "numbers"
        X, y = validate_data(self, X, y, reset=first, dtype=np.float64, y_numeric=numeric)
        if not numeric:
            check_classification_targets(y)
        return torch.from_numpy(np.array(X)), y

    def _learn(self, inputs: Tensor, y: Any) -> None:
        for start in range(0, len(y), self.batch):
            rows = inputs[start : start + self.batch]
            self.scale_.add(rows, None)
            targets = self.online_.targets.encode(y[start : start + self.batch].tolist())
            self.online_.learn(rows, targets)
        if isinstance(self.online_.targets, Classes):
            self.classes_ = np.unique([*self.online_.targets.names, *self.listed_])
            self.listed_ = self.classes_.tolist()

    def _inputs(self, X: Any) -> Tensor:
        rows = validate_data(self, X, reset=False, dtype=np.float64)
        return torch.from_numpy(np.array(rows))


class Classifier(ClassifierMixin, _Network):  # type: ignore[misc]
    """A network for any number of classes, which may come at any time, that does not forget.

    Inputs are brought to a mean of 0 and a deviation of 1, as known so far.

    Args:
        model: makes the network, given how many inputs and outputs it has; two hidden layers of
            100 if not said. The last linear layer grows with the classes.
        lr: learning rate of Adam.
        batch: so many samples are learned together, a time step.
        buffer: how many samples, chosen at random from all, are kept to be learned again.
        strength: how hard what is known is held, without units; 0 for not at all.
        passes: how often `fit` goes over the samples; `partial_fit` sees each once.
        random_state: of the network's first weights and of the choice of samples to keep.

    >>> model = Classifier().partial_fit([[0.0, 1.0], [1.0, 0.0]], ["up", "right"])
    >>> model.classes_
    array(['right', 'up'], ...)
    >>> model = model.partial_fit([[0.0, -1.0]], ["down"])
    >>> model.predict_proba([[0.0, 0.5]]).shape
    (1, 3)
    """

    _task = "classes"

    def predict(self, X: Any) -> Any:
        """The most probable class of each sample."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(1)]

    def predict_proba(self, X: Any) -> Any:
        """The probability of each class, in the order of `classes_`."""
        check_is_fitted(self)
        targets = self.online_.targets
        assert isinstance(targets, Classes)
        known = self.online_.probabilities(self._inputs(X)).numpy()
        found = np.zeros((len(known), len(self.classes_)))
        found[:, np.searchsorted(self.classes_, targets.names)] = known
        return found


class Regressor(RegressorMixin, _Network):  # type: ignore[misc]
    """A network for numbers that does not forget; its arguments are those of `Classifier`.

    >>> X = [[speed] for speed in range(10)]
    >>> model = Regressor(passes=100, batch=5).fit(X, [3 * speed for [speed] in X])
    >>> 20 < float(model.predict([[8]])[0]) < 28
    True
    """

    _task = "numbers"

    def predict(self, X: Any) -> Any:
        """The value of each sample, in the target's own units."""
        check_is_fitted(self)
        return self.online_.predict(self._inputs(X)).numpy()
