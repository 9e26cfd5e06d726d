"""Mean and spread over seeds."""

import pytest
import torch

from taskfree.paper import statistics
from taskfree.paper.statistics import mean_and_spread


def test_the_spreads_of_a_sample():
    values = [1.0, 2.0, 3.0, 6.0]
    std = float(torch.tensor(values).std())
    assert mean_and_spread(values) == [3.0, pytest.approx(std, abs=1e-4)]
    assert mean_and_spread(values, "error") == [3.0, pytest.approx(std / 2, abs=1e-4)]
    assert mean_and_spread(values, "interval") == [3.0, pytest.approx(3.1824 * std / 2, abs=2e-4)]


@pytest.mark.parametrize(
    ("count", "quantile"), [(2, 12.7062), (3, 4.3027), (8, 2.3646), (10, 2.2622), (20, 2.0930)]
)
def test_the_interval_is_students(count, quantile):
    values = [float(value) for value in range(count)]
    error = mean_and_spread(values, "error")[1]
    assert mean_and_spread(values, "interval")[1] == pytest.approx(quantile * error, rel=1e-3)


@pytest.mark.parametrize("spread", ["std", "error", "interval"])
def test_a_single_value_has_no_spread(spread):
    assert mean_and_spread([1.23456], spread) == [1.2346, 0.0]


def test_as_text():
    assert statistics.text([0.915, 0.02]) == "91.5 ± 2.0"
    assert statistics.text([0.12345, 0.01], scale=1, digits=3) == "0.123 ± 0.010"
