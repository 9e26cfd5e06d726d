import copy
from contextlib import suppress

import pytest
import torch
from torch import nn

from same import assert_same
from taskfree import MAS, Every, Learner
from taskfree._core.rollback import Rollback, preserved


def trained():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return model, optimizer


def step(model, optimizer):
    optimizer.zero_grad()
    model(torch.randn(5, 2)).square().sum().backward()
    optimizer.step()


@pytest.mark.parametrize("earlier_steps", [0, 3])
def test_everything_is_restored(earlier_steps):
    model, optimizer = trained()
    rollback = Rollback([model], optimizer, components=[])
    for _ in range(earlier_steps):
        step(model, optimizer)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    momenta = [state["momentum_buffer"].clone() for state in optimizer.state.values()]
    random = torch.get_rng_state()
    rollback.begin()
    rollback.save_parameters()
    step(model, optimizer)
    step(model, optimizer)
    optimizer.param_groups[0]["lr"] = 7.0
    rollback.restore()
    assert_same(before, model.state_dict())
    assert len(optimizer.state) == len(momenta)
    for state, momentum in zip(optimizer.state.values(), momenta, strict=True):
        assert torch.equal(state["momentum_buffer"], momentum)
    assert torch.equal(torch.get_rng_state(), random)
    assert optimizer.param_groups[0]["lr"] == 0.1
    assert all(value.grad is None for value in model.parameters())


def test_a_forward_pass_is_undone_without_copies_of_the_parameters():
    model, optimizer = trained()
    rollback = Rollback([model], optimizer, components=[])
    before = {name: value.clone() for name, value in model.state_dict().items()}
    rollback.begin()
    model(torch.randn(5, 2))
    assert int(model[1].num_batches_tracked) == 1
    rollback.restore()
    assert_same(before, model.state_dict())
    assert rollback._changed.copies == []


def test_copies_are_allocated_once_and_again_when_dtypes_change():
    model, optimizer = trained()
    rollback = Rollback([model], optimizer, components=[])

    def places():
        rollback.begin()
        rollback.save_parameters()
        return [copy.data_ptr() for copy in rollback._changed.copies]

    step(model, optimizer)
    assert places() == places()
    model.double()
    before = model[0].weight.detach().clone()
    rollback.begin()
    rollback.save_parameters()
    torch.nn.init.zeros_(model[0].weight)
    rollback.restore()
    assert torch.equal(model[0].weight, before)


def test_a_parameter_outside_the_model_is_restored():
    model, scale = nn.Linear(2, 2), nn.Parameter(torch.ones(1))
    rollback = Rollback(
        [model], torch.optim.SGD([*model.parameters(), scale], lr=0.1), components=[]
    )
    rollback.begin()
    rollback.save_parameters()
    with torch.no_grad():
        scale.fill_(7)
    rollback.restore()
    assert float(scale.detach()) == 1


class Reassigns(nn.Linear):
    """Has a buffer that forward replaces, and one that cannot be written to."""

    def __init__(self):
        super().__init__(2, 2)
        self.register_buffer("mean", torch.zeros(2))
        self.register_buffer("grid", torch.arange(2.0).expand(3, 2))

    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return super().forward(x - self.mean)


def test_buffers_that_forward_replaces_are_restored():
    model = Reassigns()
    rollback = Rollback([model], torch.optim.SGD(model.parameters()), components=[])
    before = model.mean
    rollback.begin()
    model(torch.full((3, 2), torch.nan))
    rollback.restore()
    assert model.mean is before
    assert torch.equal(model.mean, torch.zeros(2))


def test_lists_in_the_state_of_the_optimizer_are_restored():
    model, optimizer = trained()
    history = [torch.ones(2), torch.zeros(2)]
    optimizer.state[model[0].weight]["history"] = history
    rollback = Rollback([model], optimizer, components=[])
    rollback.begin()
    rollback.save_parameters()
    history[0].fill_(7)
    history.append(torch.ones(1))
    rollback.restore()
    found = optimizer.state[model[0].weight]["history"]
    assert [value.tolist() for value in found] == [[1, 1], [0, 0]]


def test_a_learning_rate_that_is_a_tensor_is_restored():
    model, _ = trained()
    optimizer = torch.optim.SGD(model.parameters(), lr=torch.tensor(0.1))
    parameters = optimizer.param_groups[0]["params"]
    rollback = Rollback([model], optimizer, components=[])
    rollback.begin()
    rollback.save_parameters()
    optimizer.param_groups[0]["lr"].fill_(5.0)
    rollback.restore()
    assert float(optimizer.param_groups[0]["lr"]) == pytest.approx(0.1)
    assert optimizer.param_groups[0]["params"] is parameters


def test_copies_are_allocated_again_when_shapes_change():
    model, optimizer = trained()
    rollback = Rollback([model], optimizer, components=[])
    rollback.begin()
    rollback.save_parameters()
    model[0].weight.data = torch.ones(3, 2)
    rollback.begin()
    rollback.save_parameters()
    torch.nn.init.zeros_(model[0].weight)
    rollback.restore()
    assert torch.equal(model[0].weight, torch.ones(3, 2))


def test_a_deep_copy_of_a_learner_undoes_its_own_steps():
    class FailsToConsolidate(MAS):
        fails = False

        def consolidate(self, model, inputs):
            if self.fails:
                raise OSError("no memory")
            super().consolidate(model, inputs)

    model = nn.Linear(3, 2)
    learner = Learner(
        model, torch.optim.SGD(model.parameters(), lr=0.1),
        loss=nn.CrossEntropyLoss(reduction="none"), when=Every(2), how=FailsToConsolidate(1.0),
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


def test_the_attributes_of_components_are_restored():
    model, optimizer = trained()
    component = Every(3)
    rollback = Rollback([model], optimizer, components=[component])
    rollback.begin()
    component.update(1.0)
    component.extra = 7
    rollback.restore()
    assert vars(component) == {"n": 3, "since": 0}


class FailedError(Exception):
    """Raised by a test."""


@pytest.mark.parametrize("fails", [False, True])
def test_preserved_restores_modes_attributes_and_buffers_but_not_parameters(fails):
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), Reassigns())
    model[1].eval()
    before = {name: value.clone() for name, value in model.named_buffers()}
    mean = model[2].mean
    with suppress(FailedError), preserved(model):
        model.train()(torch.randn(5, 2))
        model[0].note = "new"
        nn.init.zeros_(model[0].weight)
        if fails:
            raise FailedError
    assert_same(before, dict(model.named_buffers()))
    assert model[2].mean is mean
    assert [module.training for module in model] == [True, False, True]
    assert not hasattr(model[0], "note")
    assert torch.equal(model[0].weight, torch.zeros(2, 2))
