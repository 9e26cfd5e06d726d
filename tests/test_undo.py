import copy

import pytest
import torch
from torch import nn

from same import assert_same
from taskfree import MAS, Every, Learner
from taskfree.undo import Undo


def trained():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return model, optimizer


def step(model, optimizer):
    optimizer.zero_grad()
    model(torch.randn(5, 2)).square().sum().backward()
    optimizer.step()


@pytest.mark.parametrize("earlier_steps", [0, 3])
def test_everything_comes_back(earlier_steps):
    model, optimizer = trained()
    undo = Undo([model], optimizer, parts=[])
    for _ in range(earlier_steps):
        step(model, optimizer)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    momenta = [state["momentum_buffer"].clone() for state in optimizer.state.values()]
    random = torch.get_rng_state()
    undo.begin()
    undo.keep()
    step(model, optimizer)
    step(model, optimizer)
    optimizer.param_groups[0]["lr"] = 7.0
    undo.restore()
    assert_same(before, model.state_dict())
    assert len(optimizer.state) == len(momenta)
    for state, momentum in zip(optimizer.state.values(), momenta, strict=True):
        assert torch.equal(state["momentum_buffer"], momentum)
    assert torch.equal(torch.get_rng_state(), random)
    assert optimizer.param_groups[0]["lr"] == 0.1
    assert all(value.grad is None for value in model.parameters())


def test_a_forward_pass_is_undone_without_copies_of_the_parameters():
    model, optimizer = trained()
    undo = Undo([model], optimizer, parts=[])
    before = {name: value.clone() for name, value in model.state_dict().items()}
    undo.begin()
    model(torch.randn(5, 2))
    assert int(model[1].num_batches_tracked) == 1
    undo.restore()
    assert_same(before, model.state_dict())
    assert undo._changed.copies == []


def test_the_copies_are_made_once_and_anew_when_dtypes_change():
    model, optimizer = trained()
    undo = Undo([model], optimizer, parts=[])

    def places():
        undo.begin()
        undo.keep()
        return [copy.data_ptr() for copy in undo._changed.copies]

    step(model, optimizer)
    assert places() == places()
    model.double()
    before = model[0].weight.detach().clone()
    undo.begin()
    undo.keep()
    torch.nn.init.zeros_(model[0].weight)
    undo.restore()
    assert torch.equal(model[0].weight, before)


def test_a_parameter_of_the_loss_comes_back_too():
    model, scale = nn.Linear(2, 2), nn.Parameter(torch.ones(1))
    undo = Undo([model], torch.optim.SGD([*model.parameters(), scale], lr=0.1), parts=[])
    undo.begin()
    undo.keep()
    with torch.no_grad():
        scale.fill_(7)
    undo.restore()
    assert float(scale.detach()) == 1


class Reassigns(nn.Linear):
    """A buffer that forward replaces, and one that cannot be written to."""

    def __init__(self):
        super().__init__(2, 2)
        self.register_buffer("mean", torch.zeros(2))
        self.register_buffer("grid", torch.arange(2.0).expand(3, 2))

    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return super().forward(x - self.mean)


def test_buffers_that_forward_replaces_come_back():
    model = Reassigns()
    undo = Undo([model], torch.optim.SGD(model.parameters()), parts=[])
    before = model.mean
    undo.begin()
    model(torch.full((3, 2), torch.nan))
    undo.restore()
    assert model.mean is before
    assert torch.equal(model.mean, torch.zeros(2))


def test_lists_in_the_optimizers_state_come_back_as_they_were():
    model, optimizer = trained()
    history = [torch.ones(2), torch.zeros(2)]
    optimizer.state[model[0].weight]["history"] = history
    undo = Undo([model], optimizer, parts=[])
    undo.begin()
    undo.keep()
    history[0].fill_(7)
    history.append(torch.ones(1))
    undo.restore()
    found = optimizer.state[model[0].weight]["history"]
    assert [value.tolist() for value in found] == [[1, 1], [0, 0]]


def test_a_learning_rate_that_is_a_tensor_comes_back():
    model, _ = trained()
    optimizer = torch.optim.SGD(model.parameters(), lr=torch.tensor(0.1))
    parameters = optimizer.param_groups[0]["params"]
    undo = Undo([model], optimizer, parts=[])
    undo.begin()
    undo.keep()
    optimizer.param_groups[0]["lr"].fill_(5.0)
    undo.restore()
    assert float(optimizer.param_groups[0]["lr"]) == pytest.approx(0.1)
    assert optimizer.param_groups[0]["params"] is parameters


def test_copies_fit_only_what_is_alike():
    model, optimizer = trained()
    undo = Undo([model], optimizer, parts=[])
    undo.begin()
    undo.keep()
    model[0].weight.data = torch.ones(3, 2)
    undo.begin()
    undo.keep()
    torch.nn.init.zeros_(model[0].weight)
    undo.restore()
    assert torch.equal(model[0].weight, torch.ones(3, 2))


def test_a_copy_of_a_learner_is_taken_back_by_itself():
    class Fails(MAS):
        fails = False

        def consolidate(self, model, inputs):
            if self.fails:
                raise OSError("no memory")
            super().consolidate(model, inputs)

    model = nn.Linear(3, 2)
    learner = Learner(
        model, torch.optim.SGD(model.parameters(), lr=0.1),
        loss=nn.CrossEntropyLoss(reduction="none"), when=Every(2), how=Fails(1.0),
    )  # fmt: skip
    x, y = torch.randn(4, 3), torch.tensor([0, 1, 1, 0])
    learner.learn(x, y)
    other = copy.deepcopy(learner)
    other.how.fails = True
    before = {name: value.clone() for name, value in other.state_dict().items()}
    with pytest.raises(OSError, match="no memory"):
        other.learn(x, y)
    after = other.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    other.how.fails = False
    assert other.learn(x, y).consolidated
