"""Gymnasium: the network acts, an expert labels. One room, then another; tested on the first."""

import gymnasium
import numpy as np
import torch
from torch import nn

from taskfree import Learner
from taskfree.onpolicy import OnPolicy
from taskfree.paper.streams import ball


class Rooms(gymnasium.Env):
    """Is it safe to drive on here (1) or not (0)? Half of the time in one room, then in another."""

    observation_space = gymnasium.spaces.Box(-1, 1, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, frames):
        generator = torch.Generator().manual_seed(0)
        rooms = [ball.quadrant(room, frames // 2 + 1, generator) for room in (1, 2)]
        self.places, self.safe = (torch.cat(part).numpy() for part in zip(*rooms, strict=True))
        self.tests, self.answers = ball.quadrant(1, 1000, generator)
        self.at = 0

    def reset(self, *, seed=None, options=None):
        """The next place, and the expert's action there."""
        super().reset(seed=seed)
        return self.places[self.at], {"expert": int(self.safe[self.at])}

    def step(self, action):
        """Move to the next place."""
        reward = float(action == self.safe[self.at])
        self.at += 1
        observation, info = self.reset()
        return observation, reward, False, False, info


for name, components in {
    "plain": {"when": None, "which": None, "how": None},
    "taskfree": {},
}.items():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 100), nn.ReLU(), nn.Linear(100, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    learner = Learner(model, optimizer, loss=nn.CrossEntropyLoss(reduction="none"), **components)
    rooms = Rooms(frames=8000)
    acting = OnPolicy(rooms, learner, recent=20, every=20)
    for _ in range(8000):
        acting.step()
    accuracy = (learner.predict(rooms.tests).argmax(1) == rooms.answers).float().mean()
    print(f"{name}: {100 * accuracy:.0f} % in the first room")
