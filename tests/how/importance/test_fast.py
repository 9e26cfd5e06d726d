"""Which parameters take the closed form, and when that is decided."""

import gc
import weakref

import pytest
import torch
from torch import nn

from architectures import MODELS, assert_exact, importance_by_definition, inputs_for, warmed_up
from taskfree.how.importance import estimate, fast
from taskfree.how.importance.norms import squared_slopes

CLOSED = {
    "linear": "all", "linear without bias": "all", "mlp": "all", "linear over a sequence": "all",
    "conv1d": "all", "conv2d": "all", "conv2d same": "all", "depthwise": "all", "conv3d": "all",
    "transposed": "none", "batch norm": "all", "layer norm": "all", "group norm": "all",
    "dropout": "all", "embedding": "all", "embedding bag": "none", "lstm": "none", "gru": "none",
    "attention": "none", "used twice": "all", "tied": "none", "branching": "none",
    "prelu": ["0.weight", "0.bias"], "two outputs": "all",
}  # fmt: skip


@pytest.mark.parametrize("name", CLOSED)
def test_which_parameters_take_the_closed_form(name):
    make, shape = MODELS[name]
    x = inputs_for(shape)
    model = warmed_up(make, x).eval()
    parameters = dict(model.named_parameters())
    taken = fast.sums(model, parameters, x, squared_slopes)
    expected = {"all": list(parameters), "none": []}.get(str(CLOSED[name]), CLOSED[name])
    assert sorted(taken) == sorted(expected)


def test_a_changed_model_is_tried_again():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh()).double(), torch.randn(6, 4).double()
    estimate(model, x)
    model.append(nn.Linear(4, 2).double())
    assert_exact(estimate(model, x), importance_by_definition(model, x))
    model[0].weight.requires_grad_(False)
    assert_exact(estimate(model, x), importance_by_definition(model, x))


def test_plans_do_not_keep_a_model_alive():
    model = nn.Linear(4, 3)
    estimate(model, torch.randn(3, 4))
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_a_gradient_of_zero_proves_nothing():
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)).double()
    x = torch.randn(6, 4).double()
    with torch.no_grad():
        model[2].weight.zero_(), model[2].bias.zero_()  # an output layer that starts at zero
    assert all(float(value.max()) == 0 for value in estimate(model, x).values())
    assert model not in fast._plans, "tried again when there is something to compare"
    nn.init.ones_(model[2].weight)
    assert_exact(estimate(model, x), importance_by_definition(model, x))
    assert model in fast._plans
