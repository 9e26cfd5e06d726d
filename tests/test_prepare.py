"""Inputs are held as they come and converted when they are needed."""

import multiprocessing.reduction

import pytest
import torch
from torch import nn

from taskfree import MAS, Every, Learner, Snapshot, checkpoint
from taskfree.how import Teacher
from taskfree.which import ClassBalanced, Hardest, Recent, Reservoir

CROSS_ENTROPY = nn.CrossEntropyLoss(reduction="none")
BUFFERS = [lambda: Reservoir(20, replay=8), lambda: Hardest(9, rescore=True), lambda: Recent(9),
           lambda: ClassBalanced(9)]  # fmt: skip


def scaled(images):
    return images.double() / 255


def make(which, **options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    return Learner(
        model, torch.optim.SGD(model.parameters(), lr=0.1), loss=CROSS_ENTROPY, which=which(),
        when=Every(6), how=[Teacher(), MAS(0.1)], repeats=2, **options,
    )  # fmt: skip


def images(steps, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        yield (
            torch.randint(256, (5, 1, 4, 4), dtype=torch.uint8, generator=generator),
            torch.randint(3, (5,), generator=generator),
        )


@pytest.mark.parametrize("which", BUFFERS)
@pytest.mark.parametrize("micro_batch", [None, 4])
def test_bytes_are_held_and_learned_as_if_they_had_been_converted_before(which, micro_batch):
    learner = make(which, prepare=scaled, micro_batch=micro_batch)
    expected = make(which, micro_batch=micro_batch)
    for x, y in images(25):
        report = learner.learn(x, y)
        assert report == expected.learn(scaled(x), y)
    assert learner.which.inputs.dtype == torch.uint8
    assert torch.equal(scaled(learner.which.inputs), expected.which.inputs)
    for name, value in expected.how.importance.items():
        assert torch.equal(learner.how.importance[name], value)
    assert torch.equal(learner.predict(x), expected.predict(scaled(x)))
    assert torch.equal(learner.snapshot().predict(x), expected.predict(scaled(x)))


def test_other_processes_and_checkpoints_prepare_too(tmp_path):
    learner = make(BUFFERS[0], prepare=scaled)
    for x, y in images(10):
        learner.learn(x, y)
    pickler = multiprocessing.reduction.ForkingPickler
    sent = pickler.loads(pickler.dumps(learner.snapshot()))
    assert torch.equal(sent.predict(x), learner.predict(x))
    checkpoint.save(tmp_path, learner=learner)
    opened = Snapshot.open(tmp_path, learner.model, prepare=scaled)
    assert torch.equal(opened.predict(x), learner.predict(x))


def test_what_is_not_a_function_is_refused():
    with pytest.raises(TypeError, match="prepare must be a function of inputs, got 255"):
        make(BUFFERS[0], prepare=255)
