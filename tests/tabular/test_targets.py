import math

import pytest
import torch

from taskfree.tabular.targets import LabelEncoder, RegressionTarget
from taskfree.tabular.values import RowError


def test_new_labels_get_new_numbers_and_1_equals_1_point_0():
    labels = LabelEncoder()
    read = [labels.read(value) for value in ("b", 1.0, 1, "1", True)]
    assert labels.encode(read).tolist() == [0, 1, 1, 1, 2]
    assert labels.encode(["c", "b"], learn=False).tolist() == [-1, 0]
    assert labels.describe(torch.tensor(0)) == "b"


def test_labels_continue_from_their_state():
    labels, other = LabelEncoder(), LabelEncoder()
    labels.encode(["b", "1", "True"])
    other.load_state_dict(labels.state_dict())
    assert other.encode(["new", "b"]).tolist() == [3, 0]


def test_numbers_are_standardized_and_restored():
    target = RegressionTarget()
    for values in ([10.0, 20.0], [30.0, 60.0]):
        encoded = target.encode(values)
        target.scaler.add(encoded[:, None], None)
        standardized = target.standardize(encoded)
        assert torch.allclose(
            target.restore(standardized), torch.tensor(values).double(), atol=1e-5
        )
    assert float(target.scaler.mean) == 30
    target.encode([1000.0])
    assert float(target.scaler.mean) == 30, "learned only once the row was predicted"


def test_a_regression_target_continues_from_its_state():
    target, other = RegressionTarget(), RegressionTarget()
    target.scaler.add(target.encode([10.0, 30.0])[:, None], None)
    other.load_state_dict(target.state_dict())
    assert other.standardize(torch.tensor([40.0]).double()).item() == 2


@pytest.mark.parametrize("target", [LabelEncoder(), RegressionTarget()])
@pytest.mark.parametrize("value", [None, "", "NaN", math.nan])
def test_missing_targets(target, value):
    with pytest.raises(RowError, match="the target is missing"):
        target.read(value)


@pytest.mark.parametrize(
    ("value", "message"), [("much", "must be a number, got 'much'"), ("-inf", "infinite")]
)
def test_targets_that_are_not_finite_numbers(value, message):
    with pytest.raises(RowError, match=message):
        RegressionTarget().read(value)
