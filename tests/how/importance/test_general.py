"""The general way alone: in an estimate, a wrong one would be noticed and another way taken."""

import pytest
import torch
from torch import nn

from architectures import assert_exact
from taskfree.how.importance import estimate, fast, general, layers


def test_samples_are_summed_in_chunks(monkeypatch):
    model, x = nn.Linear(4, 3).double(), torch.randn(10, 4).double()
    expected = estimate(model, x)
    monkeypatch.setattr(fast, "FORMS", {})
    monkeypatch.setattr(layers, "CHUNK", 45)  # the gradients of three samples at a time
    assert_exact(estimate(model, x), expected)


@pytest.mark.parametrize("output", ["squared", "norm"])
@pytest.mark.parametrize("form", ["tensor", "tuple", "dict"])
def test_the_vectorised_way(monkeypatch, form, output):
    class Adds(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, a, b=None):
            return self.layer(a if b is None else a + 2 * b)

    model, a, b = Adds().double(), torch.randn(7, 3).double(), torch.randn(7, 3).double()
    inputs = {"tensor": a, "tuple": (a, b), "dict": {"b": b, "a": a}}[form]
    parameters = dict(model.named_parameters())
    monkeypatch.setattr(layers, "chunks", lambda rows, _: [slice(0, 3), slice(3, rows)])
    found = general._vectorised(model, parameters, inputs, output)
    expected = general._one_by_one(model, parameters, inputs, output)
    for name, value in expected.items():
        assert float(value.max()) > 0
        torch.testing.assert_close(found[name], value)


def test_one_by_one_skips_samples_that_depend_on_no_parameter():
    class Sometimes(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 1)

        def forward(self, x):
            return self.layer(x) if x.sum() > 0 else x

    model, x = Sometimes(), torch.tensor([[1.0, 2.0], [-1.0, -1.0], [3.0, 1.0]])
    parameters = dict(model.named_parameters())
    every = general._one_by_one(model, parameters, x, "squared")
    without = general._one_by_one(model, parameters, x[[0, 2]], "squared")
    for name, value in every.items():
        torch.testing.assert_close(value, without[name])
        assert value.abs().sum() > 0


def test_agreement_is_within_half_of_the_digits():
    one = {"a": torch.tensor([1.0, 2.0], dtype=torch.float64)}
    assert general._agree(one, one)
    assert general._agree({"a": one["a"] + 2e-8}, one)
    assert not general._agree({"a": one["a"] + 6e-8}, one)
    assert not general._agree({"a": one["a"] - 6e-8}, one)
    assert not general._agree({"a": torch.zeros(2).double()}, one)
