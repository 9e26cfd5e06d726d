"""Standardization in one pass."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from taskfree.tabular.scaler import FIRST, LIMIT, MEMORY, RunningScaler

VALUE = st.floats(-1, 1) | st.just(math.nan)


@given(st.lists(st.lists(st.tuples(VALUE, VALUE), min_size=1, max_size=9), min_size=1, max_size=9))
def test_running_statistics_equal_those_of_all_rows(blocks):
    everything = torch.tensor([row for block in blocks for row in block], dtype=torch.float64)
    everything += 3 * (torch.arange(len(everything)) % 2)[:, None]  # nothing is far away
    scaler, start = RunningScaler(2), 0
    for block in blocks:
        values = everything[start : start + len(block)]
        start += len(block)
        missing = values.isnan()
        scaler.add(values, missing if missing.any() else None)
    for column in range(2):
        present = everything[:, column][~everything[:, column].isnan()]
        assert scaler.count[column] == len(present)
        if len(present) and not scaler.far[column]:
            assert abs(scaler.mean[column] - present.mean()) < 1e-9
            variance = scaler.squares[column] / len(present)
            assert abs(variance - present.var(unbiased=False)) < 1e-9


def scaler_of(values):
    scaler = RunningScaler(len(values[0]))
    scaler.add(torch.tensor(values, dtype=torch.float64), None)
    return scaler


def test_the_standard_deviation_is_1_where_it_is_unknown_or_0():
    assert RunningScaler(2).std.tolist() == [1, 1]
    assert scaler_of([[5.0, 0.0], [5.0, 4.0]]).std.tolist() == [1, 2]


def test_standardized_values_are_clipped():
    scaler = scaler_of([[0.0], [2.0]])
    values = torch.tensor([[-100.0], [1.5], [100.0]], dtype=torch.float64)
    assert scaler.standardize(values).flatten().tolist() == [-LIMIT, 0.5, LIMIT]


def test_a_scaler_continues_from_its_state_as_a_copy():
    scaler, other = scaler_of([[0.0], [2.0]]), RunningScaler(1)
    other.load_state_dict(scaler.state_dict())
    scaler.mean += 1
    assert float(other.mean) == 1
    scaler.mean -= 1
    for each in (scaler, other):
        each.add(torch.tensor([[7.0]], dtype=torch.float64), None)
    assert (float(other.mean), float(other.std)) == (float(scaler.mean), float(scaler.std))


@pytest.mark.parametrize("outlier", [1e6, -1e12, 1e90])
@pytest.mark.parametrize("at", [0, 5, FIRST - 1, FIRST, 500])
def test_one_value_does_not_ruin_a_column(outlier, at):
    values = torch.randn(1000, 1, generator=torch.Generator().manual_seed(0)).double()
    values[at] = outlier
    for size in (1, 64):
        scaler = RunningScaler(1)
        for block in values.split(size):
            scaler.add(block, None)
        assert abs(float(scaler.mean)) < 0.2
        assert float(scaler.std) == pytest.approx(1, rel=0.2)
        assert float(scaler.far) == 1


def test_a_new_scale_is_soon_the_usual_one():
    scaler = scaler_of([[float(value % 2)] for value in range(1000)])
    for value in range(3000):
        scaler.add(torch.tensor([[1e4 * (value % 2)]], dtype=torch.float64), None)
    assert 2e3 < float(scaler.std) < 1e4, "about that of the values of now"


def test_what_was_long_ago_fades():
    scaler = RunningScaler(1)
    for level in (0.0, 100.0):
        for _ in range(300):
            scaler.add(level + torch.randn(1000, 1, dtype=torch.float64), None)
    assert float(scaler.count) == MEMORY
    assert float(scaler.mean) == pytest.approx(100, abs=0.1)
    assert float(scaler.std) == pytest.approx(1, rel=0.1)


def test_new_columns_begin_without_values():
    scaler = scaler_of([[1.0], [3.0]])
    scaler.grow(2)
    scaler.add(torch.tensor([[2.0, 5.0]], dtype=torch.float64), None)
    assert scaler.count.tolist() == [3, 1]
    assert scaler.mean.tolist() == [2, 5]
