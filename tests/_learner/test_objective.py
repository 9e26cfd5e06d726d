import pytest
import torch
from torch import nn

from same import assert_same, snapshot
from taskfree import Learner
from taskfree._learner.objective import per_sample


@pytest.mark.parametrize("shape", [(), (3,), (3, 2)])
def test_losses_of_any_shape_are_averaged_over_what_is_not_the_batch(shape):
    def make(loss):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 6), nn.Unflatten(1, (3, 2)))
        return Learner(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=loss)

    def whole(outputs, targets):
        errors = (outputs - targets).square()
        return errors.flatten(1).mean(1).view(-1, *[1] * len(shape)).expand(-1, *shape)

    learner = make(whole)
    expected = make(lambda outputs, targets: (outputs - targets).square().mean((1, 2)))
    for _ in range(5):
        x, y = torch.randn(7, 4), torch.randn(7, 3, 2)
        learner.learn(x, y)
        expected.learn(x, y)
    torch.testing.assert_close(learner.model[0].weight, expected.model[0].weight)


def test_as_many_outputs_as_samples_are_not_taken_for_a_mistake():
    outputs = torch.randn(3, 3)
    assert torch.equal(per_sample(outputs, outputs, outputs, 3), outputs.mean(1))
    labels = torch.tensor([0, 1, 2])
    assert torch.equal(per_sample(outputs, outputs, labels, 3), outputs.mean(1))


def test_a_broadcast_loss_changes_nothing():
    model = nn.Linear(4, 1)
    learner = Learner(
        model, torch.optim.SGD(model.parameters(), lr=0.1), loss=lambda o, t: (o - t).square()
    )
    x, y = torch.randn(5, 4), torch.randn(5)
    before = snapshot(learner)
    with pytest.raises(ValueError, match=r"broadcast against each other; .* outputs\.squeeze\(1\)"):
        learner.learn(x, y)
    assert_same(snapshot(learner), before)
