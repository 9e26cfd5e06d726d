"""For scikit-learn: a network that learns by `partial_fit` and keeps what it learned before.

>>> from sklearn.datasets import load_digits
>>> X, y = load_digits(return_X_y=True)
>>> model = SklearnClassifier()
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

from taskfree._core import validation
from taskfree.tabular import networks
from taskfree.tabular.model import StreamModel, Task
from taskfree.tabular.options import Options
from taskfree.tabular.scaler import RunningScaler
from taskfree.tabular.targets import LabelEncoder

__all__ = ["SklearnClassifier", "SklearnRegressor"]

DEFAULT = Options(batch_size=10, lr=0.01)


class _SklearnNetwork(BaseEstimator):  # type: ignore[misc]  # sklearn has no types
    """What the classifier and the regressor share."""

    _task: Task
    listed_: list[Any]

    def __init__(
        self,
        model: Callable[[int, int], nn.Module] | None = None,
        *,
        lr: float = DEFAULT.lr,
        batch_size: int = DEFAULT.batch_size,
        buffer_size: int = DEFAULT.buffer_size,
        strength: float = DEFAULT.strength,
        passes: int = 10,
        random_state: int = DEFAULT.seed,
    ) -> None:
        self.model = model
        self.lr = lr
        self.batch_size = batch_size
        self.buffer_size = buffer_size
        self.strength = strength
        self.passes = passes
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Start over and learn these samples `passes` times, each time in a new order."""
        passes = validation.integer("passes", self.passes, least=1)
        inputs, y = self._checked(X, y, first=True)
        self._start(inputs, self._options())
        draw = np.random.default_rng(self.random_state)
        for _ in range(passes):
            order = draw.permutation(len(y))
            self._learn(inputs[order], y[order])
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Continue with these samples, in their order, each seen once.

        `classes` is optional. Classes listed there have probability 0 until their first sample
        comes: a network with outputs for them would learn that they never occur.
        """
        first = not hasattr(self, "network_")
        inputs, y = self._checked(X, y, first)
        if first:
            self._start(inputs, self._options())
        if classes is not None:
            self.listed_ = [*self.listed_, *np.asarray(classes).tolist()]
        self._learn(inputs, y)
        return self

    def _start(self, inputs: Tensor, options: Options) -> None:
        self.scaler_ = RunningScaler(inputs.shape[1])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(options.seed)
            self.network_ = StreamModel(
                self._task,
                self.model or networks.mlp,
                inputs.shape[1],
                prepare=self.scaler_.prepare,
                options=options,
            )
        self.listed_ = []

    def _options(self) -> Options:
        """The arguments, checked: scikit-learn sets them without calling the constructor."""
        validation.integer("random_state", self.random_state, least=0)
        validation.integer("batch_size", self.batch_size, least=1)
        return Options(
            lr=self.lr,
            batch_size=self.batch_size,
            buffer_size=self.buffer_size,
            strength=self.strength,
            seed=self.random_state,
        )

    def _checked(self, X: Any, y: Any, first: bool) -> tuple[Tensor, Any]:
        self._options()
        numeric = self._task == "regression"
        X, y = validate_data(self, X, y, reset=first, dtype=np.float64, y_numeric=numeric)
        if not numeric:
            check_classification_targets(y)
        return torch.from_numpy(np.array(X)), y

    def _learn(self, inputs: Tensor, y: Any) -> None:
        for start in range(0, len(y), self.batch_size):
            rows = inputs[start : start + self.batch_size]
            self.scaler_.add(rows, None)
            targets = self.network_.targets.encode(y[start : start + self.batch_size].tolist())
            self.network_.learn(rows, targets)
        if isinstance(self.network_.targets, LabelEncoder):
            self.classes_ = np.unique([*self.network_.targets.names, *self.listed_])
            self.listed_ = self.classes_.tolist()

    def _inputs(self, X: Any) -> Tensor:
        rows = validate_data(self, X, reset=False, dtype=np.float64)
        return torch.from_numpy(np.array(rows))


class SklearnClassifier(ClassifierMixin, _SklearnNetwork):  # type: ignore[misc]  # no types
    """A classifier that does not forget, for any number of classes, which may come at any time.

    Inputs are standardized by the statistics so far.

    Args:
        model: creates the network from the number of inputs and outputs; by default an MLP with
            two hidden layers of 100 units. The last linear layer grows with the classes.
        lr: learning rate of Adam.
        batch_size: samples per time step.
        buffer_size: how many samples, a uniform sample of all, are kept for replay; 0 for none.
        strength: strength of the regularization, without units; 0 for none.
        passes: how often `fit` goes over the samples; `partial_fit` sees each once.
        random_state: of the network's initial weights and of the choice of samples to keep.

    >>> model = SklearnClassifier().partial_fit([[0.0, 1.0], [1.0, 0.0]], ["up", "right"])
    >>> model.classes_
    array(['right', 'up'], ...)
    >>> model = model.partial_fit([[0.0, -1.0]], ["down"])
    >>> model.predict_proba([[0.0, 0.5]]).shape
    (1, 3)
    """

    _task = "classification"

    def predict(self, X: Any) -> Any:
        """The most probable class of each sample."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(1)]

    def predict_proba(self, X: Any) -> Any:
        """The probability of each class, in the order of `classes_`."""
        check_is_fitted(self)
        targets = self.network_.targets
        assert isinstance(targets, LabelEncoder)
        known = self.network_.probabilities(self._inputs(X)).numpy()
        found = np.zeros((len(known), len(self.classes_)))
        found[:, np.searchsorted(self.classes_, targets.names)] = known
        return found


class SklearnRegressor(RegressorMixin, _SklearnNetwork):  # type: ignore[misc]  # no types
    """A regressor that does not forget; its arguments are those of `SklearnClassifier`.

    >>> X = [[speed] for speed in range(10)]
    >>> model = SklearnRegressor(passes=100, batch_size=5).fit(X, [3 * speed for [speed] in X])
    >>> 20 < float(model.predict([[8]])[0]) < 28
    True
    """

    _task = "regression"

    def predict(self, X: Any) -> Any:
        """The value of each sample, in the units of the target."""
        check_is_fitted(self)
        return self.network_.predict(self._inputs(X)).numpy()
