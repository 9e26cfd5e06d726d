import pytest
import torch
from torch import nn

from taskfree.undo import Undo


def trained():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return model, optimizer


def step(model, optimizer):
    optimizer.zero_grad()
    model(torch.randn(5, 2)).square().sum().backward()
    optimizer.step()


def test_what_goes_well_stays():
    model, optimizer = trained()
    before = model[0].weight.clone()
    with Undo(model, optimizer):
        step(model, optimizer)
    assert not torch.equal(model[0].weight, before)


@pytest.mark.parametrize("earlier_steps", [0, 3])
def test_everything_comes_back(earlier_steps):
    model, optimizer = trained()
    undo = Undo(model, optimizer)
    for _ in range(earlier_steps):
        with undo:
            step(model, optimizer)
    parameters = {name: value.clone() for name, value in model.state_dict().items()}
    momenta = [state["momentum_buffer"].clone() for state in optimizer.state.values()]
    random = torch.get_rng_state()

    def fails():
        step(model, optimizer)
        step(model, optimizer)
        raise RuntimeError("halfway")

    with pytest.raises(RuntimeError, match="halfway"), undo:
        fails()
    for name, value in model.state_dict().items():
        assert torch.equal(value, parameters[name]), name
    assert len(optimizer.state) == len(momenta)
    for state, momentum in zip(optimizer.state.values(), momenta, strict=True):
        assert torch.equal(state["momentum_buffer"], momentum)
    assert torch.equal(torch.get_rng_state(), random)
    assert all(value.grad is None for value in model.parameters())


def test_the_copies_are_made_once():
    model, optimizer = trained()
    undo = Undo(model, optimizer)
    for _ in range(2):
        with undo:
            step(model, optimizer)
    copies = [copy.data_ptr() for copy in undo._copies]
    for _ in range(3):
        with undo:
            step(model, optimizer)
    assert [copy.data_ptr() for copy in undo._copies] == copies


def test_a_parameter_of_the_loss_comes_back_too():
    model, scale = nn.Linear(2, 2), nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([*model.parameters(), scale], lr=0.1)

    def fails():
        scale.data.fill_(7)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"), Undo(model, optimizer):
        fails()
    assert float(scale.detach()) == 1
