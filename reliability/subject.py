"""What the reliability checks put to the test: a learner with everything that could be lost."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo  # an optimizer imports it at its first step; children should not have to
from torch import Tensor, nn

from taskfree import MAS, Every, Hardest, Learner


class Stream:
    """Samples drawn from Python's and torch's random generators; its state is its position."""

    def __init__(self) -> None:
        self.position = 0

    def next(self) -> tuple[Tensor, Tensor]:
        """The samples of one time step."""
        self.position += 1
        shift = random.random() + self.position / 50
        x = torch.randn(8, 4) + shift
        return x, (x.sum(1) > 4 * shift).long()

    def state_dict(self) -> dict[str, int]:
        """The position."""
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on from a position."""
        self.position = state["position"]


def subject(**options: Any) -> tuple[Learner, Stream]:
    """A learner with momentum, dropout, batch norm, a buffer and importance; and its stream."""
    random.seed(1)
    torch.manual_seed(2)
    model = nn.Sequential(
        nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2)
    )
    learner = Learner(
        model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
        loss=nn.CrossEntropyLoss(reduction="none"),
        **{"when": Every(9), "which": Hardest(12, balanced=True), "how": MAS(3.0), **options},
    )  # fmt: skip
    return learner, Stream()


def fingerprint(learner: Learner, stream: Stream) -> str:
    """A hash of all that the continuation depends on."""
    digest = hashlib.sha256(repr((stream.position, random.getstate())).encode())
    for name, value in sorted(learner.state_dict().items()):
        digest.update(name.encode())
        digest.update(repr((value.dtype, value.shape)).encode())
        digest.update(bytes(value.contiguous().flatten().view(torch.uint8).tolist()))
    return digest.hexdigest()


def isolated(function: Callable[[], list[str]]) -> list[str]:
    """Run a function in a child: a process that has run autograd should not fork."""
    here, there = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            os.close(here)
            with os.fdopen(there, "w") as out:
                out.write("\n".join(function()))
        finally:
            os._exit(0)
    os.close(there)
    with os.fdopen(here) as told:
        lines = told.read().split("\n")
    os.waitpid(process, 0)
    return lines
