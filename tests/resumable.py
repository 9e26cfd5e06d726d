"""What tests of checkpoints save and resume: a learner, a stream, any state."""

import copy
import random

import numpy as np
import pytest
import torch
from torch import nn

from taskfree import MAS, CheckpointError, Every, Hardest, Learner
from taskfree.checkpoint import resume

NUMPY = np.random.mtrand._rand  # the generator that the functions of np.random share
LOSS = nn.CrossEntropyLoss(reduction="none")


class RandomStream:
    """Batches from the random generators of Python, NumPy and torch; its state is its position."""

    def __init__(self):
        self.position = 0

    def next(self):
        self.position += 1
        shift = random.random() + NUMPY.rand() + self.position / 50
        x = torch.randn(8, 3) + shift
        return x, (x.sum(1) > 3 * shift).long()

    def state_dict(self):
        return {"position": self.position, "note": None}

    def load_state_dict(self, state):
        self.position = state["position"]


class Holder:
    """Holds any state."""

    def __init__(self, state=None):
        self.state = state

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


def seed():
    random.seed(1)
    NUMPY.seed(2)
    torch.manual_seed(3)


def make(width=6, **options):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(3, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, 2)
    )
    options = {"when": Every(7), "which": Hardest(10), "how": MAS(2.0)} | options
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return Learner(model, optimizer, loss=LOSS, **options)


def learn(learner, stream, steps):
    return [learner.learn(*stream.next()) for _ in range(steps)]


def alike(first, second):
    """Whether two nested states are equal, bit for bit."""
    if isinstance(second, torch.Tensor):
        if not isinstance(first, torch.Tensor):
            return False
        kind = (second.dtype, second.shape)
        return (first.dtype, first.shape) == kind and torch.equal(first, second)
    if type(first) is not type(second):
        return False
    if isinstance(second, dict):
        return list(first) == list(second) and all(alike(first[k], second[k]) for k in second)
    if isinstance(second, list | tuple):
        return len(first) == len(second) and all(map(alike, first, second))
    return first == second


def assert_refused(folder, reason, **parts):
    """Resuming raises for this reason and changes nothing."""
    parts = parts or {"learner": make()}
    seed()
    before = {name: copy.deepcopy(value.state_dict()) for name, value in parts.items()}
    generators = random.getstate(), str(NUMPY.get_state()), torch.get_rng_state()
    with pytest.raises(CheckpointError, match=reason):
        resume(folder, **parts)
    for name, value in parts.items():
        assert alike(value.state_dict(), before[name])
    assert alike((random.getstate(), str(NUMPY.get_state()), torch.get_rng_state()), generators)
