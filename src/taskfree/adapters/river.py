"""For river: a network that goes on learning without forgetting, as any other river model.

>>> from river import datasets, evaluate, metrics
>>> model = Classifier()
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

from taskfree import arguments
from taskfree.feed import models
from taskfree.feed.encode import Classes, Running, is_missing
from taskfree.feed.online import Online, Task

__all__ = ["Classifier", "Regressor"]

SHARED = 0.2
"""The share of places that features share by a hash when all others are taken."""


class Features:
    """Dicts of features as rows of numbers; features may come and go.

    A row is two: the values, and where they are numbers, which `Scale` brings to a mean of 0 and a
    deviation of 1. A text is a feature of its own that is 1. What is missing is 0.

    Args:
        places: how many numbers a row has. The last fifth is shared, by a hash, by features that
            come when all others are taken.

    >>> features = Features(10)
    >>> row = features.encode({"speed": 10.0, "road": "wet"})
    >>> features.places
    {('road', 'wet'): 0, 'speed': 1}
    >>> features.encode({"speed": 12.0, "road": "dry"})[:, :3]
    tensor([[ 0., 12.,  1.],
            [ 0.,  1.,  0.]], dtype=torch.float64)
    """

    def __init__(self, places: int) -> None:
        self.width = arguments.whole("features", places, least=5)
        self.own = self.width - int(SHARED * self.width)
        self.places: dict[Hashable, int] = {}
        self.running = Running(self.width)

    def encode(self, x: Mapping[Hashable, Any], learn: bool = True) -> Tensor:
        """A row; without `learn` nothing is taken in: no statistics, no new features."""
        row = torch.zeros(2, self.width, dtype=torch.float64)
        there = {name: x[name] for name in sorted(x, key=str) if not is_missing(x[name])}
        read = {  # all of it, before any feature is given a place
            (name, value) if isinstance(value, str) else name: _finite(name, value)
            for name, value in there.items()
        }
        for feature, value in read.items():
            place = self._place(feature, learn)
            if place is None:
                continue  # it was never there while something was learned
            if value is None:
                row[:, place] = torch.tensor([1, 0])
            else:
                row[:, place] = torch.tensor([value, 1])
        if learn:
            self.running.add(row[:1], row[1:] == 0)
        return row

    def _place(self, feature: Hashable, learn: bool) -> int | None:
        place = self.places.get(feature)
        if place is None and len(self.places) == self.own:
            place = self.own + crc32(repr(feature).encode()) % (self.width - self.own)
        elif place is None and learn:
            place = self.places[feature] = len(self.places)
        return place


def _finite(name: Hashable, value: Any) -> float | None:
    """A feature's number; None for a text."""
    if isinstance(value, str):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.inf
    if math.isinf(number):
        raise ValueError(f"feature {name!r} must be a finite number or a text, got {value!r}")
    return number


class _Network:
    """What the classifier and the regressor share."""

    _task: Task

    def __init__(
        self,
        model: Callable[[int, int], nn.Module] | None = None,
        lr: float = 0.01,
        buffer: int = 100,
        strength: float = 0.01,
        features: int = 100,
        seed: int = 0,
    ) -> None:
        self.model = model
        self.lr = arguments.number("lr", lr, above=0)
        self.buffer = arguments.whole("buffer", buffer, least=0)
        self.strength = arguments.number("strength", strength, least=0)
        self.features = features
        self.seed = arguments.whole("seed", seed, least=0)
        self._features = Features(features)
        self._online: Online | None = None

    @property
    def online(self) -> Online:
        """The network and its learner, `online.learner`; made when they are first asked for."""
        if self._online is None:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(self.seed)
                self._online = Online(
                    self._task,
                    self.model or models.mlp,
                    self.features,
                    scale=self._features.running,
                    lr=self.lr,
                    buffer=self.buffer,
                    strength=self.strength,
                    seed=self.seed,
                )
        return self._online

    def learn_one(self, x: Mapping[Hashable, Any], y: Any) -> None:
        """Learn from a sample."""
        targets = self.online.targets
        if not isinstance(targets, Classes):
            y = targets.read(y)
        elif y is None or y != y:
            raise ValueError(f"y must be a label, got {y!r}")
        row = self._features.encode(x)  # raises before anything has changed
        self.online.learn(row[None], targets.encode([y]))

    def _row(self, x: Mapping[Hashable, Any]) -> Tensor:
        return self._features.encode(x, learn=False)[None]


class Classifier(_Network, base.Classifier):
    """A network for any number of classes, which may come at any time, that does not forget.

    Args:
        model: makes the network, given how many inputs and outputs it has; two hidden layers of
            100 if not said. The last linear layer grows with the classes.
        lr: learning rate of Adam.
        buffer: how many samples, chosen at random from all, are kept to be learned again.
        strength: how hard what is known is held, without units; 0 for not at all.
        features: how many different features have a place; later ones share some by a hash.
        seed: of the network's first weights and of the choice of samples to keep.

    >>> model = Classifier()
    >>> for _ in range(30):
    ...     model.learn_one({"road": "wet", "speed": 3.0}, "brake")
    ...     model.learn_one({"road": "dry", "speed": 1.0}, "go")
    >>> model.predict_one({"road": "wet", "speed": 2.5})
    'brake'
    """

    _task = "classes"

    @property
    def _multiclass(self) -> bool:
        return True

    def predict_proba_one(self, x: Mapping[Hashable, Any], **_: Any) -> dict[Any, float]:
        """The probability of every label that has come."""
        assert isinstance(self.online.targets, Classes)
        labels: list[Any] = self.online.targets.names
        if not labels:
            return {}
        return dict(zip(labels, self.online.probabilities(self._row(x))[0].tolist(), strict=True))


class Regressor(_Network, base.Regressor):
    """A network for numbers that does not forget; its parameters are those of `Classifier`.

    >>> model = Regressor()
    >>> for speed in range(200):
    ...     model.learn_one({"speed": speed % 10}, 3.0 * (speed % 10))
    >>> 20 < model.predict_one({"speed": 8}) < 28
    True
    """

    _task = "numbers"

    def predict_one(self, x: Mapping[Hashable, Any], **_: Any) -> float:
        """The value, in the target's own units."""
        return float(self.online.predict(self._row(x)))
