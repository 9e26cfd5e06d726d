import pytest
import torch
from torch import nn

from taskfree import MAS, Learner
from taskfree.how import Teacher

CROSS_ENTROPY = nn.CrossEntropyLoss(reduction="none")


def make(clip, optimizer=torch.optim.SGD, **options):
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    return Learner(
        model, optimizer(model.parameters(), lr=1.0), loss=CROSS_ENTROPY, which=None, clip=clip,
        **options,
    )  # fmt: skip


def step_length(clip):
    learner = make(clip, how=None)
    before = [value.detach().clone() for value in learner.model.parameters()]
    learner.learn(torch.full((4, 3), 10.0), torch.tensor([0, 1, 1, 1]))
    after = [value.detach() for value in learner.model.parameters()]
    return float(sum((a - b).square().sum() for a, b in zip(after, before, strict=True)).sqrt())


def test_large_gradients_are_scaled_down_and_small_ones_are_not():
    free = step_length(None)
    assert free > 1
    assert step_length(0.5) == pytest.approx(0.5, rel=1e-4)
    assert step_length(10 * free) == pytest.approx(free, rel=1e-6)


@pytest.mark.parametrize("clip", [0, -1, float("nan"), "much"])
def test_an_invalid_clip(clip):
    with pytest.raises((TypeError, ValueError), match="clip must be"):
        make(clip)


def test_what_does_not_go_with_a_line_search():
    with pytest.raises(ValueError, match="clip changes gradients, which LBFGS needs"):
        make(1.0, torch.optim.LBFGS)
    with pytest.raises(ValueError, match="use penalty='proximal'"):
        make(None, torch.optim.LBFGS, how=[Teacher(), MAS(1.0, penalty="gradient")])
