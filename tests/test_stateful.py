"""Whatever happens to a learner, in any order, its state equals that of an undisturbed run."""

import os
import shutil
import tempfile
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from torch import nn

from examples import examples
from same import assert_same, snapshot
from taskfree import MAS, Every, Hardest, Learner, NotFiniteError, Reservoir, checkpoint

STEPS = 40
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
BUFFERS = {
    "hardest": lambda: Hardest(7),
    "balanced": lambda: Hardest(7, balanced=True),
    "reservoir": lambda: Reservoir(7, seed=1),
    "none": lambda: None,
}


def make(buffer):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return Learner(
        model, optimizer, loss=nn.CrossEntropyLoss(reduction="none"),
        when=Every(6), which=BUFFERS[buffer](), how=MAS(2.0), on_bad="skip",
    )  # fmt: skip


@cache
def batches():
    generator = torch.Generator().manual_seed(4)
    drawn = [torch.randn(5, 3, generator=generator) + step / 10 for step in range(STEPS)]
    return [(x, (x.sum(1) > 0.3 * step).long()) for step, x in enumerate(drawn)]


@cache
def expected(buffer):
    """The state after every step of an undisturbed run."""
    learner = make(buffer)
    states = [snapshot(learner)]
    for batch in batches():
        learner.learn(*batch)
        states.append(snapshot(learner))
    return states


class Killed(BaseException):
    """Stands for the end of the process: nothing is cleaned up after it."""


class Life(RuleBasedStateMachine):
    """Learning, saving, crashing, resuming, bad samples and misuse, in any order."""

    @initialize(buffer=st.sampled_from(list(BUFFERS)))
    def start(self, buffer):
        self.folder = Path(tempfile.mkdtemp(prefix="taskfree-life-", dir=MEMORY))
        self.buffer, self.learner = buffer, make(buffer)
        self.steps = {}  # of every generation ever written

    def files(self):
        """The files of the stored generations, newest last; not those of unfinished ones."""
        return sorted(file for file in self.folder.iterdir() if file.stem.isdigit())

    def saved(self):
        """The steps of the stored generations, newest last."""
        return [self.steps[int(file.stem)] for file in self.files()]

    def next(self):
        return batches()[self.learner.step] if self.learner.step < STEPS else None

    @rule(steps=st.integers(1, 5))
    def learn(self, steps):
        for _ in range(steps):
            if self.next():
                self.learner.learn(*self.next())

    @rule(
        bad=st.lists(st.integers(0, 4), min_size=1, max_size=4),
        value=st.sampled_from([torch.nan, torch.inf]),
    )
    def learn_among_bad_samples(self, bad, value):
        if self.next():
            x, y = self.next()
            order = torch.tensor(sorted([*range(5), *bad]))
            twice = torch.cat([torch.tensor([False]), order[1:] == order[:-1]])
            x, y = x[order].clone(), y[order]
            x[twice, 0] = value
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                assert self.learner.learn(x, y).skipped == len(bad)

    @rule()
    def only_bad_samples(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert self.learner.learn(torch.full((2, 3), torch.nan), torch.tensor([0, 1])).skipped

    @rule()
    def wrong_samples(self):
        with pytest.raises(ValueError, match="rows"):
            self.learner.learn(torch.ones(3, 3), torch.zeros(2, dtype=torch.long))

    @rule()
    def a_loss_that_fails(self):
        def fails(*_):
            raise NotFiniteError("loss")

        if self.next():
            loss, self.learner.loss = self.learner.loss, fails
            with pytest.raises(ValueError, match="loss"):
                self.learner.learn(*self.next())
            self.learner.loss = loss

    @rule()
    def an_optimizer_that_fails(self):
        if self.next():
            group = self.learner.optimizer.param_groups[0]
            rate, group["lr"] = group["lr"], 1e60
            with pytest.raises(RuntimeError, match="cannot be converted"):
                self.learner.learn(*self.next())
            group["lr"] = rate

    @rule(background=st.booleans(), keep=st.integers(1, 3))
    def save(self, background, keep):
        saving = checkpoint.save(
            self.folder, learner=self.learner, keep=keep, background=background
        )
        saving.wait()
        self.steps[saving.generation] = self.learner.step
        assert len(self.saved()) <= keep

    @rule(at=st.integers(1, 80))
    def killed_while_saving(self, at):
        count = 0

        def wrap(function):
            def call(*args, **options):
                nonlocal count
                count += 1
                if count >= at:
                    raise Killed
                return function(*args, **options)

            return call

        step, before = self.learner.step, self.saved()
        generation = max((int(file.stem) for file in self.files()), default=0) + 1
        self.steps[generation] = step  # whether it is completed or not
        with pytest.MonkeyPatch.context() as patch:
            for name in ("write", "fsync", "open", "replace", "rename", "unlink", "close"):
                patch.setattr(os, name, wrap(getattr(os, name)))
            with suppress(Killed):
                checkpoint.save(self.folder, learner=self.learner, keep=2)
        self.learner = make(self.buffer)
        checkpoint.resume(self.folder, learner=self.learner)
        assert self.learner.step in {step, *(before[-1:] or [0])}
        assert self.learner.step == (self.saved() or [0])[-1]

    @rule()
    def killed(self):
        self.learner = make(self.buffer)
        checkpoint.resume(self.folder, learner=self.learner)
        assert self.learner.step == (self.saved() or [0])[-1]

    @rule(place=st.floats(0, 1, exclude_max=True), cut=st.booleans())
    def the_newest_is_damaged(self, place, cut):
        files = self.files()
        if len(files) < 2:
            return
        content = bytearray(files[-1].read_bytes())
        position = int(place * len(content))
        content[position] ^= 1
        files[-1].write_bytes(content[:position] if cut else content)
        self.learner = make(self.buffer)
        with pytest.warns(UserWarning, match="continuing from"):
            checkpoint.resume(self.folder, learner=self.learner)
        files[-1].unlink()
        assert self.learner.step == self.saved()[-1]

    @rule()
    def moved_to_another_process(self):
        state = snapshot(self.learner)
        self.learner = make(self.buffer)
        self.learner.load_state_dict(state)

    @rule()
    def given_another_learners_state(self):
        other = "none" if self.buffer != "none" else "hardest"
        with pytest.raises(ValueError, match="same components"):
            self.learner.load_state_dict(expected(other)[3])

    @invariant()
    def the_state_is_that_of_an_undisturbed_run(self):
        if hasattr(self, "learner"):
            assert_same(snapshot(self.learner), expected(self.buffer)[self.learner.step])

    def teardown(self):
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)


Life.TestCase.settings = examples(40)
TestLife = Life.TestCase
