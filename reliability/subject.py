"""What the reliability checks test: a learner with everything that could be lost, and forks.

The process that runs the checks never runs autograd itself: a process that has run it should not
fork. Whatever learns does so in a fork.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import traceback
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo  # an optimizer imports it at its first step; forks should not have to
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
        """Continue from a position."""
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
    """A digest of everything that the continuation depends on."""
    digest = hashlib.sha256(repr((stream.position, random.getstate())).encode())
    for name, value in sorted(learner.state_dict().items()):
        digest.update(name.encode())
        digest.update(repr((value.dtype, value.shape)).encode())
        digest.update(bytes(value.contiguous().flatten().view(torch.uint8).tolist()))
    return digest.hexdigest()


def isolated(function: Callable[[], Any]) -> Any:
    """The result of a function that runs in a fork, as JSON holds it; None if it was killed."""
    here, there = os.pipe()
    process = os.fork()
    if process == 0:
        status = 1
        try:
            os.close(here)
            torch.set_num_threads(1)
            with os.fdopen(there, "w") as out:
                json.dump(function(), out)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(there)
    with os.fdopen(here) as answer:
        text = answer.read()
    _, status = os.waitpid(process, 0)
    if os.WIFSIGNALED(status):
        return None
    if os.WEXITSTATUS(status):
        raise RuntimeError("a fork failed")
    return json.loads(text)
