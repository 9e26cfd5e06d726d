import inspect

import pytest
import torch

import taskfree
from taskfree._core import errors

ERRORS = [value for _, value in inspect.getmembers(errors, inspect.isclass)
          if issubclass(value, BaseException)]  # fmt: skip


def test_every_error_has_one_base_and_is_public():
    assert {error.__name__ for error in ERRORS} == {
        "TaskfreeError", "NotFiniteError", "CheckpointError", "DistributedError",
    }  # fmt: skip
    for error in ERRORS:
        assert issubclass(error, errors.TaskfreeError)
        assert getattr(taskfree, error.__name__) is error


@pytest.mark.parametrize(
    ("error", "base"),
    [
        (errors.NotFiniteError, ValueError),
        (errors.CheckpointError, ValueError),
        (errors.DistributedError, RuntimeError),
    ],
)
def test_errors_are_also_caught_as_the_errors_of_python(error, base):
    with pytest.raises(base, match="why"):
        raise error("why")
    assert not issubclass(errors.TaskfreeError, ValueError | RuntimeError)


def test_a_not_finite_error_names_the_bad_samples():
    assert errors.NotFiniteError("why").bad is None
    mask = torch.tensor([False, True])
    error = errors.NotFiniteError("why", mask)
    assert error.bad is mask
    assert str(error) == "why"
