"""Gradients and parameters that are nan or inf are found."""

import math

import pytest
import torch
from torch import nn

from taskfree import NotFiniteError
from taskfree._core import finite


@pytest.mark.parametrize("size", [3, finite.LARGE])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_gradient_that_is_not_finite_is_found_anywhere(size, value):
    gradients = [torch.ones(size), torch.ones(2)]
    assert finite.all_finite(gradients)
    gradients[0][size // 2] = value
    assert not finite.all_finite(gradients)
    assert not finite.all_finite(gradients[::-1])
    assert finite.all_finite([torch.ones(size)]), "an earlier finding does not matter"
    assert gradients[1].tolist() == [1, 1]


def test_a_sum_that_overflows_is_not_mistaken_for_an_inf():
    large = torch.full((finite.LARGE,), 3e38)
    assert torch.isinf(large.sum())
    assert finite.all_finite([large])
    assert large[0] == torch.tensor(3e38)


def test_gradients_of_several_dtypes_are_checked():
    kinds = [torch.ones(2), torch.ones(2).double(), torch.ones(1, dtype=torch.bfloat16)]
    assert finite.all_finite(kinds)
    kinds[1][0] = math.nan
    assert not finite.all_finite(kinds)
    assert finite.all_finite([])


@pytest.mark.parametrize(
    ("lr", "loss", "dtype", "safe"),
    [
        (0.1, 0.7, torch.float32, True),
        (9e5, 9e14, torch.float32, True),
        (1e6, 0.7, torch.float32, False),
        (0.1, 1e15, torch.float32, False),
        (0.1, -1e15, torch.float32, False),
        (0.1, 0.7, torch.float16, False),
        (0.1, 0.7, torch.bfloat16, True),
    ],
)
def test_what_makes_a_step_safe(lr, loss, dtype, safe):
    value = nn.Parameter(torch.ones(2, dtype=dtype))
    optimizer = torch.optim.SGD([value], lr=lr)
    assert finite.step_is_safe(optimizer, loss), "without a gradient nothing can overflow"
    value.grad = torch.ones_like(value)
    assert finite.step_is_safe(optimizer, loss) is safe


def test_a_gradient_that_is_not_finite_stops_the_step():
    value = nn.Parameter(torch.ones(2))
    value.grad = torch.tensor([1.0, math.nan])
    with pytest.raises(NotFiniteError, match="gradients are nan or inf although the losses are"):
        finite.step_is_safe(torch.optim.SGD([value], lr=0.1), 0.7)


def test_sparse_gradients_are_checked():
    layer = nn.Embedding(5, 2, sparse=True)
    layer(torch.tensor([1, 1])).sum().backward()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    assert finite.step_is_safe(optimizer, 0.7)
    layer.weight.grad._values()[0, 0] = math.inf
    with pytest.raises(NotFiniteError, match="gradients are nan or inf"):
        finite.step_is_safe(optimizer, 0.7)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_parameters_that_are_not_finite_are_found(value):
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    finite.check_parameters(model)
    with torch.no_grad():
        model[1].bias[0] = value
    assert not finite.parameters_are_finite(model)
    with pytest.raises(NotFiniteError, match="would have made parameters nan or inf"):
        finite.check_parameters(model)
    model[1].requires_grad_(False)
    finite.check_parameters(model)  # a step does not change frozen ones
