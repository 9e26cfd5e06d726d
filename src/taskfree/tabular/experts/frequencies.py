"""Experts on labels that count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from taskfree.tabular.experts.expert import RowBatch, Stateless
from taskfree.tabular.experts.history import SLOTS

FORGET = 0.999
"""The weight of the past in how often a label repeats itself, per row."""
KEY_FORGET = 0.98
"""The weight of the past in the counts of a key, per row of that key."""
MOST_KEYS = 10_000
"""Later keys of a column are not told apart."""
MOST_CLASSES = 100
"""With more classes, keys have no counts of their own."""


class Frequencies:
    """The most frequent class: how often each came so far.

    >>> rows = RowBatch(torch.zeros(1, 0), None)
    >>> expert = Frequencies()
    >>> expert.learn(rows, torch.tensor([0, 0, 1]))
    >>> expert.predict(rows)
    tensor([[0.6667, 0.3333]], dtype=torch.float64)
    """

    name = "most frequent class"

    def __init__(self) -> None:
        self.counts = torch.zeros(0, dtype=torch.float64)

    @property
    def shares(self) -> Tensor:
        """The share of each class."""
        return self.counts / self.counts.sum().clamp_min(1)

    def predict(self, rows: RowBatch) -> Tensor:
        """The shares, for every row."""
        return self.shares.expand(len(rows), -1)

    def learn(self, rows: RowBatch, targets: Tensor) -> None:
        """Count the labels."""
        del rows
        self.counts = _fit(self.counts, int(targets.max()) + 1)
        self.counts = self.counts + torch.bincount(targets, minlength=len(self.counts))

    def state_dict(self) -> dict[str, Any]:
        """The counts."""
        return {"counts": self.counts}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.counts = state["counts"].clone()


class RecentFrequencies(Stateless):
    """How frequent each class was among the last rows, mixed with its share of all.

    Args:
        overall: the shares of all rows, which another expert counts.
    """

    name = "recent classes"

    def __init__(self, overall: Frequencies) -> None:
        self.overall = overall

    def predict(self, rows: RowBatch) -> Tensor:
        """The decaying means, one row each."""
        shares = self.overall.predict(rows)
        classes = shares.shape[1]
        if classes > SLOTS:  # they share their slots
            return shares
        recent = rows.past.recent[:, :classes]
        return 0.95 * recent + (1 - 0.95 * recent.sum(1, keepdim=True)) * shares


class SameAsLast:
    """The same class as in the row before, as probably as labels repeated themselves lately.

    Args:
        overall: the shares of all rows, which another expert counts.
    """

    name = "same as the last row"

    def __init__(self, overall: Frequencies) -> None:
        self.overall = overall
        self.repeated, self.count = 1.0, 2.0

    def predict(self, rows: RowBatch) -> Tensor:
        """The last class; the other classes share the rest."""
        others, last = self.overall.predict(rows).clone(), rows.past.last
        seen = (last >= 0) & (last < others.shape[1])
        if not seen.any():
            return others
        known = torch.where(seen, last, 0)[:, None]
        others.scatter_(1, known, 0.0)
        stay = torch.full_like(others[:, :1], self.repeated / self.count)
        others *= (1 - stay) / others.sum(1, keepdim=True).clamp_min(1e-12)
        found = others.scatter_(1, known, stay)
        return torch.where(seen[:, None], found, self.overall.shares)

    def learn(self, rows: RowBatch, targets: Tensor) -> None:
        """Count how many repeat the row before."""
        same, faded = (targets == rows.past.last).double(), FORGET ** len(targets)
        weights = FORGET ** torch.arange(len(targets) - 1, -1, -1, dtype=torch.float64)
        self.repeated = self.repeated * faded + float(weights @ same)
        self.count = self.count * faded + float(weights.sum())

    def state_dict(self) -> dict[str, Any]:
        """The counts."""
        return {"repeated": self.repeated, "count": self.count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.repeated, self.count = state["repeated"], state["count"]


class KeyedFrequencies:
    """How frequent each class was lately in the rows of the same key: a sensor, a station, an hour.

    Args:
        key: the name of the column.
        place: which of the columns of keys it is.
        overall: the shares of all rows, which another expert counts.
    """

    def __init__(self, key: str, place: int, overall: Frequencies) -> None:
        self.name = f"same {key}"
        self.place, self.overall = place, overall
        self.counts: dict[str, dict[int, float]] = {}

    def predict(self, rows: RowBatch) -> Tensor:
        """The decaying counts of the row's key, and one row more with the shares of all."""
        shares = self.overall.shares
        known = {key: self._share(key, shares) for key in set(rows.keys[self.place])}
        return torch.stack([known[key] for key in rows.keys[self.place]])

    def _share(self, key: str | None, shares: Tensor) -> Tensor:
        counts = self.counts.get(key or "")
        if not counts:
            return shares
        found = shares.clone()
        found[list(counts)] += torch.tensor(list(counts.values()), dtype=torch.float64)
        return found / found.sum()

    def learn(self, rows: RowBatch, targets: Tensor) -> None:
        """Count the labels by key."""
        if len(self.overall.counts) > MOST_CLASSES:
            self.counts = {}
            return
        for key, label in zip(rows.keys[self.place], targets.tolist(), strict=True):
            counts = self.counts.get(key or "")
            if counts is None:
                if len(self.counts) >= MOST_KEYS:
                    continue
                counts = self.counts[key or ""] = {}
            for other in counts:
                counts[other] *= KEY_FORGET
            counts[label] = counts.get(label, 0.0) + 1

    def state_dict(self) -> dict[str, Any]:
        """The counts, as tensors."""
        keys = list(self.counts)
        entries = [(at, c, n) for at, key in enumerate(keys) for c, n in self.counts[key].items()]
        return {"keys": keys, "entries": torch.tensor(entries, dtype=torch.float64).view(-1, 3)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.counts = {key: {} for key in state["keys"]}
        named = list(self.counts.values())
        for at, label, count in state["entries"].tolist():
            named[int(at)][int(label)] = count


def _fit(values: Tensor, columns: int) -> Tensor:
    """With zeros in the last dimension, if there are fewer columns than these."""
    missing = columns - values.shape[-1]
    return torch.nn.functional.pad(values, (0, missing)) if missing > 0 else values
