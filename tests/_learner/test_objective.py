import pytest
import torch
from torch import nn

from same import assert_same, snapshot
from taskfree import MAS, Every, Learner
from taskfree._learner.objective import per_sample
from taskfree.how import Teacher
from taskfree.which import Hardest, Reservoir


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


class Counted(nn.Module):
    """A network that knows the largest batch it was given."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        self.largest = 0

    def forward(self, x):
        self.largest = max(self.largest, len(x)) if self.training else self.largest
        return self.layers(x)


@pytest.mark.parametrize("micro_batch", [1, 4, 100])
@pytest.mark.parametrize("which", [lambda: Reservoir(20, replay=7), lambda: Hardest(9)])
def test_gradients_are_accumulated_over_micro_batches(micro_batch, which):
    def make(**options):
        torch.manual_seed(0)
        model = Counted().double()
        return Learner(
            model, torch.optim.SGD(model.parameters(), lr=0.1), which=which(), when=Every(7),
            how=[Teacher(), MAS(0.01)], repeats=2, loss=nn.CrossEntropyLoss(reduction="none"),
            **options,
        )  # fmt: skip

    learner, expected = make(micro_batch=micro_batch), make()
    for _ in range(20):
        x = torch.randn(5, 4).double()
        for one in (learner, expected):
            one.learn(x, (x[:, 0] > 0).long())
    assert learner.model.largest == min(micro_batch, expected.model.largest)
    assert expected.model.largest > 10
    for name, value in expected.state_dict().items():
        torch.testing.assert_close(learner.state_dict()[name], value, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("micro_batch", [0, -1, 1.5, "few"])
def test_an_invalid_micro_batch(micro_batch):
    model = nn.Linear(1, 1)
    with pytest.raises(
        (TypeError, ValueError), match="micro_batch must be an integer of at least 1"
    ):
        Learner(model, torch.optim.SGD(model.parameters()), loss=nn.L1Loss(reduction="none"),
                micro_batch=micro_batch)  # fmt: skip
