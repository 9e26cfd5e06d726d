"""Methods that are this library's learner with other components, and the bounds on both sides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import torch

from taskfree.learner import Learner
from taskfree.paper.methods.watching import Predict, Watcher
from taskfree.paper.streams.changing import ChangingStream
from taskfree.which import Reservoir

Setting: TypeAlias = dict[str, Any]
Method: TypeAlias = Callable[[ChangingStream, int, int, Setting, Watcher], Predict]
"""Learns a stream with a memory of so many samples, a seed and a setting; returns what predicts."""


def online(
    stream: ChangingStream, memory: int, seed: int, setting: Setting, watcher: Watcher
) -> Predict:
    """A plain training loop without memory."""
    del memory, seed, setting
    return _learn(stream, watcher, which=None, how=None)


def joint(
    stream: ChangingStream, memory: int, seed: int, setting: Setting, watcher: Watcher
) -> Predict:
    """The same loop on the same samples in random order: nothing ever changes.

    Its running score means little: it is on batches of which some samples were learned before.
    """
    del memory, setting
    columns = [torch.cat(column) for column in zip(*stream.batches, strict=True)]
    order = torch.randperm(len(columns[0]), generator=torch.Generator().manual_seed(seed))
    size = len(stream.batches[0][0])
    x, y = (torch.split(column[order], size) for column in columns)
    shuffled = replace(stream, batches=list(zip(x, y, strict=True)))
    return _learn(shuffled, watcher, which=None, how=None)


def replay(
    stream: ChangingStream, memory: int, seed: int, setting: Setting, watcher: Watcher
) -> Predict:
    """Plain experience replay from a uniform sample of the stream."""
    del setting
    return _learn(stream, watcher, which=Reservoir(memory, seed=seed), how=None)


def paper(
    stream: ChangingStream, memory: int, seed: int, setting: Setting, watcher: Watcher
) -> Predict:
    """The paper's learner; its thresholds and strength are the setting."""
    del seed
    return _learn(stream, watcher, Learner.paper, capacity=memory, **setting)


def taskfree(
    stream: ChangingStream, memory: int, seed: int, setting: Setting, watcher: Watcher
) -> Predict:
    """The library's default, with another capacity of the buffer."""
    del setting
    return _learn(stream, watcher, which=Reservoir(memory, seed=seed, balanced="auto"))


def _learn(
    stream: ChangingStream,
    watcher: Watcher,
    make: Callable[..., Learner] = Learner,
    **options: Any,
) -> Predict:
    optimizer = torch.optim.SGD(stream.model.parameters(), lr=stream.lr)
    learner = make(stream.model, optimizer, loss=stream.loss, repeats=stream.repeats, **options)
    for step, (x, y) in enumerate(stream.batches):
        watcher.before(step, learner.predict)
        learner.learn(x, y)
    return learner.predict
