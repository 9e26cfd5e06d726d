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
from zlib import crc32

import torch
from river import base
from torch import Tensor, nn

from taskfree._core import validation
from taskfree.tabular import networks
from taskfree.tabular.model import StreamModel, Task
from taskfree.tabular.options import Options
from taskfree.tabular.scaler import RunningScaler
from taskfree.tabular.targets import LabelEncoder
from taskfree.tabular.values import is_missing

__all__ = ["RiverClassifier", "RiverRegressor"]

DEFAULT = Options()

SHARED = 0.2
"""The fraction of inputs that features share by a hash when all others are taken."""


class FeatureEncoder:
    """Dicts of features as rows of numbers; features may come and go.

    A row is a pair: the values, and a mask of those to be standardized. A string is a feature of
    its own with value 1. Missing features are 0.

    Args:
        width: how many inputs a row becomes. The last fifth is shared by a hash by features that
            come when all others are taken.

    >>> features = FeatureEncoder(10)
    >>> row = features.encode({"speed": 10.0, "road": "wet"})
    >>> features.places
    {('road', 'wet'): 0, 'speed': 1}
    >>> features.encode({"speed": 12.0, "road": "dry"})[:, :3]
    tensor([[ 0., 12.,  1.],
            [ 0.,  1.,  0.]], dtype=torch.float64)
    """

    def __init__(self, width: int) -> None:
        self.width = validation.integer("features", width, least=5)
        self.own = self.width - int(SHARED * self.width)
        self.places: dict[Hashable, int] = {}
        self.scaler = RunningScaler(self.width)

    def encode(self, x: Mapping[Hashable, Any], learn: bool = True) -> Tensor:
        """A row; with `learn=False` statistics and features stay as they are."""
        row = torch.zeros(2, self.width, dtype=torch.float64)
        present = {name: x[name] for name in sorted(x, key=str) if not is_missing(x[name])}
        read = {  # all of it, before any feature gets a place
            (name, value) if isinstance(value, str) else name: _finite(name, value)
            for name, value in present.items()
        }
        for feature, value in read.items():
            place = self._place(feature, learn)
            if place is None:
                continue  # it has never been learned
            if value is None:
                row[:, place] = torch.tensor([1, 0])
            else:
                row[:, place] = torch.tensor([value, 1])
        if learn:
            self.scaler.add(row[:1], row[1:] == 0)
        return row

    def _place(self, feature: Hashable, learn: bool) -> int | None:
        place = self.places.get(feature)
        if place is None and len(self.places) == self.own:
            place = self.own + crc32(repr(feature).encode()) % (self.width - self.own)
        elif place is None and learn:
            place = self.places[feature] = len(self.places)
        return place


def _finite(name: Hashable, value: Any) -> float | None:
    """A feature's number; None for a string."""
    if isinstance(value, str):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.inf
    if math.isinf(number):
        raise ValueError(f"feature {name!r} must be a finite number or a string, got {value!r}")
    return number


class _RiverNetwork:
    """What the classifier and the regressor share."""

    _task: Task

    def __init__(
        self,
        model: Callable[[int, int], nn.Module] | None = None,
        lr: float = DEFAULT.lr,
        buffer_size: int = DEFAULT.buffer_size,
        strength: float = DEFAULT.strength,
        features: int = 100,
        in_order: bool = True,
        seed: int = DEFAULT.seed,
    ) -> None:
        self.model, self.features, self.in_order = model, features, in_order
        self.lr, self.buffer_size, self.strength, self.seed = lr, buffer_size, strength, seed
        self._options = Options(lr=lr, buffer_size=buffer_size, strength=strength, seed=seed)
        self._encoder = FeatureEncoder(features)
        self._network: StreamModel | None = None

    @property
    def network(self) -> StreamModel:
        """The network and its learner, `network.learner`; created on first use."""
        if self._network is None:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(self.seed)
                self._network = StreamModel(
                    self._task,
                    self.model or networks.mlp,
                    self.features,
                    scaler=self._encoder.scaler,
                    options=self._options,
                )
        return self._network

    def learn_one(self, x: Mapping[Hashable, Any], y: Any) -> None:
        """Learn from one sample."""
        targets = self.network.targets
        if not isinstance(targets, LabelEncoder):
            y = targets.read(y)
        elif y is None or y != y:
            raise ValueError(f"y must be a label, got {y!r}")
        row = self._encoder.encode(x)  # raises before anything has changed
        self.network.step(row[None], [y])

    def _row(self, x: Mapping[Hashable, Any]) -> Tensor:
        return self._encoder.encode(x, learn=False)[None]


class RiverClassifier(_RiverNetwork, base.Classifier):
    """A classifier that does not forget, for any number of classes, which may come at any time.

    Args:
        model: creates the network from the number of inputs and outputs; by default an MLP with
            two hidden layers of 100 units. The last linear layer grows with the classes.
        lr: learning rate of Adam.
        buffer_size: how many samples, a uniform sample of all, are kept for replay; 0 for none.
        strength: strength of the regularization, without units; 0 for none.
        features: how many different features get an input; later ones share some by a hash.
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
        assert isinstance(self.network.targets, LabelEncoder)
        labels: list[Any] = self.network.targets.names
        if not labels:
            return {}
        network, row = self.network, self._row(x)
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
        network, row = self.network, self._row(x)
        return float(network.predict_next(row) if self.in_order else network.predict(row))
