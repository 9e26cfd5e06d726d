import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from taskfree.tabular.scaler import LIMIT, RunningScaler, Standardize

VALUE = st.floats(-1e6, 1e6) | st.just(math.nan)


@given(st.lists(st.lists(st.tuples(VALUE, VALUE), min_size=1, max_size=5), min_size=1, max_size=6))
def test_running_statistics_equal_those_of_all_rows(blocks):
    scaler = RunningScaler(2)
    for block in blocks:
        values = torch.tensor(block, dtype=torch.float64)
        missing = values.isnan()
        scaler.add(values, missing if missing.any() else None)
    everything = torch.tensor([row for block in blocks for row in block], dtype=torch.float64)
    for column in range(2):
        present = everything[:, column][~everything[:, column].isnan()]
        assert scaler.count[column] == len(present)
        if len(present):
            scale = 1 + present.abs().max().item()
            assert abs(scaler.mean[column] - present.mean()) < 1e-9 * scale
            variance = scaler.squares[column] / len(present)
            assert abs(variance - present.var(unbiased=False)) < 1e-9 * scale**2


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
    state = scaler.state_dict()
    other.load_state_dict(state)
    scaler.mean += 1
    assert float(other.mean) == 1
    assert (float(other.count), float(other.squares)) == (2, 2)


def test_the_layer_standardizes_by_the_statistics_of_the_moment():
    scaler = scaler_of([[0.0], [2.0]])
    layer, inputs = Standardize(scaler), torch.tensor([[2.0]], dtype=torch.float64)
    assert layer(inputs).item() == 1
    scaler.add(torch.tensor([[4.0]], dtype=torch.float64), None)
    assert layer(inputs).item() == 0
    assert layer(inputs).dtype == torch.float32
