"""How much a learner holds besides model, optimizer and samples, in copies of the parameters."""

import pytest
import torch
from torch import Tensor, nn

from taskfree import Every, Learner, Reservoir


def storages(node, found, seen):
    """The bytes of every storage that can be reached from an object, by address."""
    if id(node) in seen:
        return found
    seen.add(id(node))
    if isinstance(node, Tensor):
        found[node.untyped_storage().data_ptr()] = node.untyped_storage().nbytes()
    elif isinstance(node, dict):
        for value in node.values():
            storages(value, found, seen)
    elif isinstance(node, list | tuple | set):
        for value in node:
            storages(value, found, seen)
    elif hasattr(node, "__dict__"):
        storages(vars(node), found, seen)
    return found


def copies(capacity, repeats, optimizer):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 400), nn.ReLU(), nn.Linear(400, 400), nn.Linear(400, 2))
    optimizer = optimizer(model.parameters(), lr=0.01)
    learner = Learner(
        model, optimizer, loss=nn.CrossEntropyLoss(reduction="none"), repeats=repeats,
        when=Every(15), which=Reservoir(capacity, balanced="auto"),
    )  # fmt: skip
    for _ in range(40):
        x = torch.randn(10, 20)
        learner.learn(x, (x[:, 0] > 0).long())
        learner.predict(x)
    held = storages(learner, {}, set())
    others = storages([model, optimizer, optimizer.state, learner.which], {}, set())
    parameters = sum(value.numel() * value.element_size() for value in model.parameters())
    return sum(size for place, size in held.items() if place not in others) / parameters


SGD, Adam = torch.optim.SGD, torch.optim.Adam


@pytest.mark.parametrize(
    ("capacity", "repeats", "optimizer", "most"),
    [
        (500, 1, SGD, 1),  # the averaged weights
        (500, 1, Adam, 1),
        (500, 2, SGD, 2),  # and what a failed step is undone with,
        (500, 2, Adam, 4),  # which is the optimizer's state too
        (50, 1, SGD, 4),  # averaged weights; importance, anchor and the weights of its penalty
        (50, 1, Adam, 4),
    ],
)
def test_a_learner_holds_few_copies_of_the_parameters(capacity, repeats, optimizer, most):
    assert most - 1.1 < copies(capacity, repeats, optimizer) < most + 0.1
