import torch
from torch import nn

from taskfree._learner.eval_view import EvalView


def test_parameters_are_shared_and_buffers_are_not():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    view = EvalView(model)
    first = view.refresh()
    assert [a is b for a, b in zip(first.parameters(), model.parameters(), strict=True)] == [
        True
    ] * 4
    model(torch.randn(8, 2))
    assert view.refresh() is first, "made once"
    assert torch.equal(first[1].running_mean, model[1].running_mean)
    first[1].running_mean.add_(1)
    assert not torch.equal(first[1].running_mean, model[1].running_mean)


def test_a_replaced_parameter_is_seen():
    model = nn.Linear(2, 1)
    view = EvalView(model)
    view.refresh()
    model.weight = nn.Parameter(torch.ones(1, 2))
    assert view.refresh().weight is model.weight
