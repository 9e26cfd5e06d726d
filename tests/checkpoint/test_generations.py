"""Saving and resuming: what is kept, what is refused, and what happens when the disk fails."""

import errno
import os
import random
import shutil
import threading
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from examples import examples
from resumable import Holder, RandomStream, alike, assert_refused, learn, make, seed
from same import assert_same, snapshot
from taskfree import Reservoir
from taskfree.checkpoint import CheckpointError, peek, resume, save


@given(st.integers(0, 25), st.booleans(), st.sampled_from(["hardest", "reservoir"]))
@examples(10)
def test_a_run_resumes_bit_for_bit_at_any_step(tmp_path_factory, stop, background, which):
    def new():
        return make(**({"which": Reservoir(9, seed=2)} if which == "reservoir" else {}))

    folder = tmp_path_factory.mktemp("run")
    seed()
    learner, stream = new(), RandomStream()
    learn(learner, stream, stop)
    save(folder, learner=learner, stream=stream, background=background)
    expected = learn(learner, stream, 20)
    resumed, position = new(), RandomStream()
    seed()
    random.random()
    assert resume(folder, learner=resumed, stream=position) == 1
    assert str(learn(resumed, position, 20)) == str(expected)
    assert_same(snapshot(resumed), snapshot(learner))
    assert position.position == stream.position


@pytest.mark.parametrize("background", [False, True])
def test_saving_does_not_disturb_learning(tmp_path, background):
    seed()
    plain, stream = make(), RandomStream()
    learn(plain, stream, 30)
    seed()
    saved, stream = make(), RandomStream()
    for step in range(30):
        learn(saved, stream, 1)
        if step % 3 == 0:
            save(tmp_path, learner=saved, stream=stream, background=background)
    assert_same(snapshot(saved), snapshot(plain))


def test_at_the_first_start_nothing_is_loaded(tmp_path):
    learner = make()
    before = snapshot(learner)
    assert resume(tmp_path / "nothing", learner=learner) == 0
    tmp_path.joinpath("notes.txt").write_text("not ours")
    assert resume(tmp_path, learner=learner) == 0
    assert_same(snapshot(learner), before)


def test_old_generations_and_unfinished_files_are_removed_and_no_others(tmp_path):
    learner = make()
    for stray in ("00000007.writing", "00000009.writing.safetensors"):
        (tmp_path / stray).write_bytes(b"half")
    for own in ("mine.txt", "mine.writing.txt", "my.writing"):
        (tmp_path / own).write_text("not ours")
    for _ in range(5):
        saving = save(tmp_path, learner=learner, keep=2)
    assert saving.generation == 5
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [
        "00000004.safetensors", "00000005.safetensors",
        "mine.txt", "mine.writing.txt", "my.writing",
    ]  # fmt: skip


def test_folders_are_created_and_one_generation_may_be_kept(tmp_path):
    folder = tmp_path / "a" / "b"
    for _ in range(3):
        save(folder, keep=1, learner=make())
    assert [file.name for file in folder.iterdir()] == ["00000003.safetensors"]


def test_the_file_is_flushed_to_disk_and_then_its_folder(tmp_path, monkeypatch):
    flushed = []
    fsync = os.fsync

    def watch(descriptor):
        flushed.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watch)
    save(tmp_path, learner=make())
    assert flushed == [str(tmp_path / "00000001.writing.safetensors"), str(tmp_path)]


def test_peek_returns_states_without_loading_them(tmp_path):
    assert peek(tmp_path, "learner") == {}
    learner, stream = make(), RandomStream()
    learn(learner, stream, 4)
    save(tmp_path, learner=learner, stream=stream)
    generator = torch.get_rng_state()
    found = peek(tmp_path, "stream", "learner")
    assert found["stream"] == {"position": 4, "note": None}
    assert alike(found["learner"], snapshot(learner))
    assert torch.equal(torch.get_rng_state(), generator)
    with pytest.raises(CheckpointError, match=r"00000001\.safetensors holds no optimizer, log"):
        peek(tmp_path, "learner", "optimizer", "log")


# What is refused, and why


@pytest.mark.parametrize(
    "value", [torch.ones(2, dtype=torch.complex64), torch.eye(2).to_sparse(), {1, 2}, {(1, 2): 3}]
)
def test_a_state_that_cannot_be_saved_is_refused_and_nothing_is_written(tmp_path, value):
    with pytest.raises(TypeError, match=r"can be saved|cannot hold|keys"):
        save(tmp_path / "run", thing=Holder({"x": value}))
    assert not (tmp_path / "run").exists()


class Half:
    def state_dict(self):
        return {}


def test_invalid_arguments_of_save_and_resume(tmp_path):
    with pytest.raises(TypeError, match="nothing to save"):
        save(tmp_path)
    with pytest.raises(TypeError, match=r"stream must have state_dict and .*, got list"):
        resume(tmp_path, stream=[])
    with pytest.raises(TypeError, match=r"thing must have state_dict and .*, got Half"):
        save(tmp_path, thing=Half())
    with pytest.raises(TypeError, match="random is the name"):
        save(tmp_path, random=make())
    with pytest.raises(ValueError, match="keep must be"):
        save(tmp_path, keep=0, learner=make())


def test_a_state_that_does_not_fit_is_refused(tmp_path):
    learner = make()
    learn(learner, RandomStream(), 12)
    save(tmp_path, learner=learner)
    model = "does not fit learner: .*load it into a learner with the model"
    assert_refused(tmp_path, model, learner=make(width=7))
    components = "does not fit learner: .*make it of the same components"
    assert_refused(tmp_path, components, learner=make(how=None))
    parts = "holds learner, random, but the parts to load are learner, random, stream"
    assert_refused(tmp_path, parts, learner=make(), stream=RandomStream())
    assert_refused(tmp_path, "holds learner, random", model=make())


def test_a_module_of_another_dtype_is_refused(tmp_path):
    save(tmp_path, model=nn.Linear(2, 2))
    reason = r"does not fit model: \w+ is torch.float32 there and torch.float64 here"
    assert_refused(tmp_path, reason, model=nn.Linear(2, 2).double())


class FailsToLoad(RandomStream):
    """A part that is loaded after another and raises."""

    def load_state_dict(self, state):
        if state["position"] != self.position:
            raise KeyError("position")


def test_if_one_part_fails_the_others_are_restored(tmp_path):
    learner, stream = make(), RandomStream()
    learn(learner, stream, 5)
    save(tmp_path, learner=learner, stream=stream)
    assert_refused(tmp_path, "does not fit stream", learner=make(), stream=FailsToLoad())


def test_a_damaged_newest_generation_is_skipped_with_a_warning(tmp_path):
    learner, stream = make(), RandomStream()
    for _ in range(3):
        learn(learner, stream, 4)
        saving = save(tmp_path, learner=learner)
    saving.file.write_bytes(saving.file.read_bytes()[:-10])
    resumed = make()
    message = r"00000003.safetensors is damaged.*continuing from 00000002"
    with pytest.warns(UserWarning, match=message) as caught:
        assert resume(tmp_path, learner=resumed) == 2
    assert caught[0].filename == __file__
    assert resumed.step == 8
    with warnings.catch_warnings(record=True):
        assert save(tmp_path, learner=resumed).generation == 4


# What fails while it is written


class FailingDisk:
    """Makes one of the system calls of a save fail: the one with number `at`."""

    def __init__(self, monkeypatch, at, code):
        self.left, self.code = at, code
        for name in ("write", "fsync", "open", "rename", "replace"):
            monkeypatch.setattr(os, name, self.wrap(getattr(os, name)))

    def wrap(self, function):
        def call(*args, **options):
            self.left -= 1
            if self.left == 0:
                raise OSError(self.code, os.strerror(self.code))
            return function(*args, **options)

        return call


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("background", [False, True])
def test_a_failing_disk_leaves_the_old_or_the_new_state(tmp_path, code, background):
    learner, stream = make(), RandomStream()
    learn(learner, stream, 3)
    failed = 0
    for at in range(1, 200):
        folder = tmp_path / str(at)
        save(folder, learner=learner)
        old = snapshot(learner)
        learn(learner, stream, 1)
        new = snapshot(learner)
        with pytest.MonkeyPatch.context() as patch:
            FailingDisk(patch, at, code)
            done = True
            try:
                save(folder, learner=learner, background=background).wait()
            except OSError as error:
                done, failed = False, failed + (error.errno == code)
        resumed = make()
        resume(folder, learner=resumed)
        found = snapshot(resumed)
        assert any(alike(found, state) for state in ([new] if done else [old, new]))
        assert not list(folder.glob("*.writing*"))
        shutil.rmtree(folder)
        if done:
            break
    assert failed > 40  # the header, every tensor, fsync, rename, the folder


def test_saving_in_the_background_saves_the_state_of_the_call(tmp_path):
    learner, stream = make(), RandomStream()
    learn(learner, stream, 3)
    expected = snapshot(learner)
    saving = save(tmp_path, learner=learner, background=True)
    learn(learner, stream, 5)
    saving.wait()
    resumed = make()
    resume(tmp_path, learner=resumed)
    assert_same(snapshot(resumed), expected)
    assert not any("saving" in thread.name for thread in threading.enumerate())


def test_an_error_in_the_background_is_raised_by_the_next_save(tmp_path):
    learner = make()
    save(tmp_path, learner=learner)
    with pytest.MonkeyPatch.context() as patch:
        FailingDisk(patch, 3, errno.ENOSPC)
        save(tmp_path, learner=learner, background=True)._thread.join()
    with pytest.raises(OSError, match="No space left"):
        save(tmp_path, learner=learner)
    assert save(tmp_path, learner=learner).generation == 2
