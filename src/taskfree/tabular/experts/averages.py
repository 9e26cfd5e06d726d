"""Experts on numbers that average."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from taskfree.tabular.experts.expert import RowBatch, Stateless
from taskfree.tabular.experts.frequencies import KEY_FORGET, MOST_KEYS
from taskfree.tabular.scaler import RunningScaler


class Mean(Stateless):
    """The mean of all values so far.

    Args:
        scaler: the statistics of the target.

    >>> scaler = RunningScaler(1)
    >>> scaler.add(torch.tensor([[1.0], [2.0]]).double(), None)
    >>> Mean(scaler).predict(RowBatch(torch.zeros(2, 0), None))
    tensor([1.5000, 1.5000], dtype=torch.float64)
    """

    name = "mean so far"

    def __init__(self, scaler: RunningScaler) -> None:
        self.scaler = scaler

    def predict(self, rows: RowBatch) -> Tensor:
        """The mean."""
        mean: Tensor = self.scaler.mean
        return mean.expand(len(rows))


class LastValue(Stateless):
    """The value of the row before."""

    name = "same as the last row"

    def predict(self, rows: RowBatch) -> Tensor:
        """The last value."""
        return rows.past.last


class RecentMean(Stateless):
    """The decaying mean of the last values."""

    name = "recent mean"

    def predict(self, rows: RowBatch) -> Tensor:
        """The mean."""
        return rows.past.recent


class KeyedAverage:
    """The decaying mean, or the last value, of the rows of the same key.

    Args:
        key: the name of the column.
        place: which of the columns of keys it is.
        scaler: the statistics of the target, for keys that are new.
        last: the last value instead of the mean.
    """

    def __init__(self, key: str, place: int, scaler: RunningScaler, last: bool) -> None:
        self.name = f"last of the same {key}" if last else f"mean of the same {key}"
        self.place, self.scaler = place, scaler
        self.forget = 0.0 if last else KEY_FORGET
        self.known: dict[str, list[float]] = {}
        """By key, the mean and the weight of the rows in it."""

    def predict(self, rows: RowBatch) -> Tensor:
        """The mean of the row's key, with one row more at the mean of all."""
        overall = float(self.scaler.mean)
        if not self.forget:
            values = [self.known.get(key or "", (overall,))[0] for key in rows.keys[self.place]]
            return torch.tensor(values, dtype=torch.float64)
        nothing = [0.0, 0.0]
        found = [self.known.get(key or "", nothing) for key in rows.keys[self.place]]
        means = [(mean * count + overall) / (count + 1) for mean, count in found]
        return torch.tensor(means, dtype=torch.float64)

    def learn(self, rows: RowBatch, targets: Tensor) -> None:
        """Average the values by key."""
        for key, value in zip(rows.keys[self.place], targets.tolist(), strict=True):
            entry = self.known.get(key or "")
            if entry is None:
                if len(self.known) >= MOST_KEYS:
                    continue
                entry = self.known[key or ""] = [0.0, 0.0]
            entry[1] = entry[1] * self.forget + 1
            entry[0] += (value - entry[0]) / entry[1]

    def state_dict(self) -> dict[str, Any]:
        """The means and weights, as tensors."""
        entries = torch.tensor(list(self.known.values()), dtype=torch.float64).view(-1, 2)
        return {"keys": list(self.known), "entries": entries}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.known = dict(zip(state["keys"], state["entries"].tolist(), strict=True))
