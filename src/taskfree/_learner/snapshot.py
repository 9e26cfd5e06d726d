"""Copies of what a learner answers with, which answer while it learns."""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from taskfree import checkpoint
from taskfree._core import batch
from taskfree._core.batch import Batch
from taskfree._core.errors import CheckpointError
from taskfree._core.model import named_tensors, unwrap
from taskfree._core.serialization import take_prefix

Choice: TypeAlias = Literal["model", "teacher", "mean"]
CHOICES: tuple[Choice, ...] = ("teacher", "mean", "model")
"""Who may answer, the one that remembers most first."""
TOLERANCE = 0.1
"""One that remembers more answers if its loss on new samples is higher by at most this fraction."""
AVERAGE = re.compile(r"how\.(\d+\.)?average\.")
"""The names of averaged weights in a learner's state."""
Prepare: TypeAlias = Callable[[Any], Any]
"""A function of the inputs of a batch that returns what the model takes."""


def prepared(prepare: Prepare | None, inputs: Batch) -> Any:
    """The inputs as the model takes them.

    >>> prepared(lambda image: image / 255, torch.tensor([51], dtype=torch.uint8))
    tensor([0.2000])
    """
    return inputs if prepare is None else prepare(inputs)


class Snapshot:
    """An immutable copy of what a learner answers with, for other threads and processes.

    `Learner.snapshot` makes it. It shares nothing with the learner, so it can be used while that
    learns, by any number of threads.

    >>> from taskfree import Learner
    >>> model = nn.Linear(2, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> learner = Learner(model, optimizer, loss=lambda o, t: (o[:, 0] - t) ** 2)
    >>> snapshot = learner.snapshot()
    >>> before = snapshot.predict(torch.ones(1, 2))
    >>> report = learner.learn(torch.ones(4, 2), torch.ones(4))
    >>> torch.equal(snapshot.predict(torch.ones(1, 2)), before), snapshot.step
    (True, 0)
    """

    def __init__(
        self, networks: Sequence[nn.Module], step: int, prepare: Prepare | None = None
    ) -> None:
        self.networks = tuple(networks)
        """One network, or two whose outputs are averaged."""
        self.prepare = prepare
        """What is done to inputs before they see them, or None."""
        self.step = step
        """The number of time steps that the learner had taken."""

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        model: nn.Module,
        name: str = "learner",
        prepare: Prepare | None = None,
    ) -> Snapshot:
        """Open a checkpoint for inference alone: no optimizer, buffer or learner is made.

        Args:
            path: the folder that `checkpoint.save` wrote to.
            model: a model like the one that was saved. It is copied, not changed.
            name: that of the learner in `checkpoint.save`.
            prepare: the learner's own, if it had one.

        >>> import tempfile
        >>> from taskfree import Learner, checkpoint
        >>> model = nn.Linear(2, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> learner = Learner(model, optimizer, loss=lambda o, t: (o[:, 0] - t) ** 2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = checkpoint.save(folder, learner=learner)
        ...     snapshot = Snapshot.open(folder, nn.Linear(2, 1))
        >>> torch.equal(snapshot.predict(torch.ones(1, 2)), learner.predict(torch.ones(1, 2)))
        True
        """
        found = checkpoint.peek(path, name)
        if not found:
            raise CheckpointError(f"{path} holds no checkpoint; save one with checkpoint.save")
        state: Mapping[str, Tensor] = found[name]
        saved = take_prefix("model", state)
        averages = {
            key.partition("average.")[2]: value
            for key, value in state.items()
            if AVERAGE.match(key)
        }
        choice = choose(state["serving.losses"].tolist()) if averages else "model"
        networks = []
        if choice != "model":
            networks.append(_loaded(model, saved | averages))
        if choice != "teacher":
            networks.append(_loaded(model, saved))
        return cls(networks, int(state["step"]), prepare)

    def predict(self, inputs: Batch) -> Any:
        """The outputs in eval mode, without gradients."""
        batch.check("inputs", inputs)
        return answer(self.networks, prepared(self.prepare, inputs))


def choose(losses: Sequence[float]) -> Choice:
    """Who answers: the one that remembers most and whose loss is near the lowest.

    >>> choose([1.05, 1.0, 1.0]), choose([1.2, 1.2, 1.0])
    ('teacher', 'model')
    """
    least = min(losses)
    fits = (loss <= least + TOLERANCE * abs(least) for loss in losses)
    return next(name for name, fit in zip(CHOICES, fits, strict=True) if fit)


@torch.no_grad()
def _loaded(model: nn.Module, tensors: Mapping[str, Tensor]) -> nn.Module:
    """A copy of a model with these tensors, in eval mode."""
    network = copy.deepcopy(unwrap(model)).eval().requires_grad_(False)
    for name, own in named_tensors(network).items():
        saved = tensors.get(name)
        if saved is None or (saved.shape, saved.dtype) != (own.shape, own.dtype):
            came = "nothing" if saved is None else f"{saved.dtype} {list(saved.shape)}"
            raise CheckpointError(
                f"the checkpoint has {came} for {name!r} and the model {own.dtype} "
                f"{list(own.shape)}; open it with the model it was saved from"
            )
        own.copy_(saved)
    return network


@torch.no_grad()
def answer(networks: Sequence[nn.Module], inputs: Batch) -> Any:
    """The mean of the networks' outputs.

    >>> answer([nn.Identity(), nn.ReLU()], torch.tensor([[-2.0]]))
    tensor([[-1.]])
    """
    outputs = [batch.call(network, inputs) for network in networks]
    return outputs[0] if len(outputs) == 1 else mean_of(*outputs)


def mean_of(first: Any, second: Any) -> Any:
    """The mean of two outputs of the same structure; of what is not floating point, the first.

    >>> mean_of((torch.zeros(1), torch.tensor([3])), (torch.ones(1), torch.tensor([5])))
    (tensor([0.5000]), tensor([3]))
    """

    def mean(one: Tensor, other: Tensor) -> Tensor:
        return torch.lerp(one, other, 0.5) if one.is_floating_point() else one

    return batch.apply(mean, first, second)
