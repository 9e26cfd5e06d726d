"""Experts: simple predictors of the next row, which are mixed with the network."""

from taskfree.tabular.experts.averages import KeyedAverage, LastValue, Mean, RecentMean
from taskfree.tabular.experts.expert import Expert, Past, RowBatch
from taskfree.tabular.experts.frequencies import (
    Frequencies,
    KeyedFrequencies,
    RecentFrequencies,
    SameAsLast,
)
from taskfree.tabular.experts.history import LabelHistory, ValueHistory
from taskfree.tabular.experts.linear import LeastSquares, LinearModel, SoftmaxModel
from taskfree.tabular.experts.recent_network import RecentNetwork

__all__ = [
    "Expert",
    "Frequencies",
    "KeyedAverage",
    "KeyedFrequencies",
    "LabelHistory",
    "LastValue",
    "LeastSquares",
    "LinearModel",
    "Mean",
    "Past",
    "RecentFrequencies",
    "RecentMean",
    "RecentNetwork",
    "RowBatch",
    "SameAsLast",
    "SoftmaxModel",
    "ValueHistory",
]
