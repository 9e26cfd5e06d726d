import copy

import pytest
import torch

from taskfree.paper.methods.watching import EVERY, Watcher
from taskfree.paper.streams import points


def always(label):
    return lambda x: torch.eye(2)[torch.full((len(x),), label)]


def watch(stream, predict):
    watcher = Watcher(stream)
    for step in range(len(stream.batches)):
        watcher.before(step, predict(step))
    return watcher


def test_scores_are_those_before_and_after_learning():
    stream = points.quadrants(0, steps=EVERY)
    found = watch(stream, lambda step: always(int(step % 2))).finish(always(1))
    said = [(y == step % 2).float().mean() for step, (_, y) in enumerate(stream.batches) if step]
    assert found["running"] == pytest.approx(float(torch.stack(said).mean()), abs=1e-4)
    right = [float((y == 1).float().mean()) for _, y in stream.tests]
    assert found["final"] == pytest.approx(sum(right) / 2, abs=1e-4)


def test_forgetting_is_what_is_lost_since_the_best_evaluation():
    stream = points.quadrants(0, steps=EVERY)
    perfect = {len(y): torch.eye(2)[y] for _, y in stream.tests[:1]}

    def knows(x):
        first = torch.equal(x, stream.tests[0][0])
        return perfect[len(x)] if first else always(0)(x)

    found = watch(stream, lambda _: knows).finish(always(0))
    assert found["forgetting"] == pytest.approx(0.25, abs=1e-4), (
        "half of the first, none of the 2nd"
    )


def test_samples_are_counted_while_learning_only_also_in_copies():
    stream = points.quadrants(0, steps=3)
    watcher = Watcher(stream)
    other = copy.deepcopy(stream.model)
    for step, (x, _) in enumerate(stream.batches):
        watcher.before(step, stream.model)
        stream.model(x)
        other(x[:5])
    assert watcher.finish(stream.model)["samples per step"] == 25
