"""A learner that finds plateaus and peaks, and its stream."""

import torch
from torch import nn

from taskfree import MAS, Hardest, Learner, Plateau


def make(**options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 2))
    options = {
        "when": Plateau(window=4, mean=0.7, variance=0.2), "which": Hardest(8), "how": MAS(1.0),
    } | options  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    return Learner(model, optimizer, loss=nn.CrossEntropyLoss(reduction="none"), **options)


def stream(steps=150, start=0):
    """Two labels; what decides between them changes at step 50 and at step 100."""
    generator = torch.Generator().manual_seed(5)
    for step in range(steps):
        x = torch.randn(6, 2, generator=generator)
        answer = x[:, step // 50 % 2] > 0
        if step >= start:
            yield x, (answer if step < 100 else ~answer).long()
