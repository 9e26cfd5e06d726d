"""For river: a network that keeps learning without forgetting, used like any river model.

>>> from river import datasets, evaluate, metrics
>>> model = RiverClassifier()
>>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
Accuracy: 8...%
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import torch
from river import base
from torch import Tensor, nn

from taskfree.tabular import networks
from taskfree.tabular.encoders import TableEncoder
from taskfree.tabular.model import StreamModel, Task
from taskfree.tabular.options import Options
from taskfree.tabular.targets import LabelEncoder, RegressionTarget
from taskfree.tabular.values import is_missing

__all__ = ["RiverClassifier", "RiverRegressor"]

DEFAULT = Options()


class _RiverNetwork:
    """What the classifier and the regressor share."""

    _task: Task

    def __init__(
        self,
        model: Callable[[int, int], nn.Module] | None = None,
        lr: float = DEFAULT.lr,
        buffer_size: int = DEFAULT.buffer_size,
        strength: float = DEFAULT.strength,
        in_order: bool = True,
        seed: int = DEFAULT.seed,
    ) -> None:
        self.model, self.in_order = model, in_order
        self.lr, self.buffer_size, self.strength, self.seed = lr, buffer_size, strength, seed
        self._options = Options(lr=lr, buffer_size=buffer_size, strength=strength, seed=seed)
        self._encoder = TableEncoder({})
        self._network: StreamModel | None = None

    @property
    def network(self) -> StreamModel:
        """The network and its learner, `network.learner`; created on first use.

        It has inputs for the features of the first sample; later ones get theirs when they come.
        """
        if self._network is None:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(self.seed)
                self._network = StreamModel(
                    self._task,
                    self.model or networks.mlp,
                    self._encoder.width,
                    prepare=self._encoder.prepare,
                    options=self._options,
                )
        return self._network

    def learn_one(self, x: Mapping[Hashable, Any], y: Any) -> None:
        """Learn from one sample."""
        if self._task == "regression":
            y = RegressionTarget().read(y)
        elif y is None or y != y:
            raise ValueError(f"y must be a label, got {y!r}")
        inputs = self._inputs(x, learn=True)  # raises before anything has changed
        self.network.step(inputs, [y])

    def _inputs(self, x: Mapping[Hashable, Any], learn: bool) -> Tensor:
        """A sample as inputs; every feature is a column that came late."""
        for name, value in x.items():
            if not isinstance(value, str) and not is_missing(value) and not _is_finite(value):
                raise ValueError(
                    f"feature {name!r} must be a finite number or a string, got {value!r}"
                )
        row = self._encoder.read([], {str(name): x[name] for name in sorted(x, key=str)})
        return self._encoder.encode([row], learn)


def _is_finite(value: Any) -> bool:
    """Whether a value is a number, and neither nan nor inf."""
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False


class RiverClassifier(_RiverNetwork, base.Classifier):
    """A classifier that does not forget, for any number of classes, which may come at any time.

    Args:
        model: creates the network from the number of inputs and outputs; by default an MLP with
            two hidden layers of 100 units. The last linear layer grows with the classes.
        lr: learning rate of Adam.
        buffer_size: how many samples, a uniform sample of all, are kept for replay; 0 for none.
        strength: strength of the regularization, without units; 0 for none.
        in_order: samples are predicted in the order in which they are learned, each before it is
            learned, so that what the last ones said counts. If False, a sample may be of any time,
            and the network alone answers, which remembers. It may be set at any time.
        seed: of the network's initial weights and of the choice of samples to keep.

    >>> model = RiverClassifier()
    >>> for _ in range(30):
    ...     model.learn_one({"road": "wet", "speed": 3.0}, "brake")
    ...     model.learn_one({"road": "dry", "speed": 1.0}, "go")
    >>> model.predict_one({"road": "wet", "speed": 2.5})
    'brake'
    """

    _task = "classification"

    @property
    def _multiclass(self) -> bool:
        return True

    def predict_proba_one(self, x: Mapping[Hashable, Any], **_: Any) -> dict[Any, float]:
        """The probability of every label seen so far."""
        if self._network is None:
            return {}
        row, network = self._inputs(x, learn=False), self.network
        assert isinstance(network.targets, LabelEncoder)
        labels: list[Any] = network.targets.names
        found = network.next_probabilities(row) if self.in_order else network.probabilities(row)
        return dict(zip(labels, found[0].tolist(), strict=True))


class RiverRegressor(_RiverNetwork, base.Regressor):
    """A regressor that does not forget; its arguments are those of `RiverClassifier`.

    >>> model = RiverRegressor()
    >>> for speed in range(200):
    ...     model.learn_one({"speed": speed % 10}, 3.0 * (speed % 10))
    >>> 20 < model.predict_one({"speed": 8}) < 28
    True
    """

    _task = "regression"

    def predict_one(self, x: Mapping[Hashable, Any], **_: Any) -> float:
        """The value, in the units of the target."""
        if self._network is None:
            return 0.0
        row, network = self._inputs(x, learn=False), self.network
        return float(network.predict_next(row) if self.in_order else network.predict(row))
