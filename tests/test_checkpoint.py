import copy
import errno
import json
import os
import random
import shutil
import sys
import threading
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn

import taskfree
from examples import examples
from same import assert_same, snapshot
from taskfree import MAS, Every, Hardest, Learner, Reservoir, checkpoint
from taskfree.checkpoint import CheckpointError, resume, save

NUMPY = np.random.mtrand._rand  # the generator that np.random's functions share
LOSS = nn.CrossEntropyLoss(reduction="none")


class Stream:
    """Batches from Python's, NumPy's and torch's random generators; its state is its position."""

    def __init__(self):
        self.position = 0

    def next(self):
        self.position += 1
        shift = random.random() + NUMPY.rand() + self.position / 50
        x = torch.randn(8, 3) + shift
        return x, (x.sum(1) > 3 * shift).long()

    def state_dict(self):
        return {"position": self.position, "note": None}

    def load_state_dict(self, state):
        self.position = state["position"]


def alike(first, second):
    """Whether two nested states are the same, bit for bit."""
    if isinstance(second, torch.Tensor):
        kind = (second.dtype, second.shape)
        return (first.dtype, first.shape) == kind and torch.equal(first, second)
    if type(first) is not type(second):
        return False
    if isinstance(second, dict):
        return list(first) == list(second) and all(alike(first[k], second[k]) for k in second)
    if isinstance(second, list | tuple):
        return len(first) == len(second) and all(map(alike, first, second))
    return first == second


def seed():
    random.seed(1)
    NUMPY.seed(2)
    torch.manual_seed(3)


def make(width=6, **options):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(3, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, 2)
    )
    options = {"when": Every(7), "which": Hardest(10), "how": MAS(2.0)} | options
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return Learner(model, optimizer, loss=LOSS, **options)


def go(learner, stream, steps):
    return [learner.learn(*stream.next()) for _ in range(steps)]


@given(st.integers(0, 25), st.booleans(), st.sampled_from(["hardest", "reservoir"]))
@examples(10)
def test_resumes_bit_for_bit_at_any_step(tmp_path_factory, stop, background, which):
    folder = tmp_path_factory.mktemp("run")
    options = {"which": Reservoir(9, seed=2)} if which == "reservoir" else {}
    seed()
    learner, stream = make(**options), Stream()
    go(learner, stream, stop)
    save(folder, learner=learner, stream=stream, background=background)
    expected = go(learner, stream, 20)
    again, position = make(**options), Stream()
    seed()
    random.random()
    assert resume(folder, learner=again, stream=position) == 1
    assert str(go(again, position, 20)) == str(expected)
    assert_same(snapshot(again), snapshot(learner))
    assert position.position == stream.position


class Holds:
    """Anything with a state."""

    def __init__(self, **state):
        self.state = state

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = dict(state)


def test_empty_tensors_of_any_shape_come_back(tmp_path):
    state = {"none": torch.empty(0, 3), "one": torch.ones(1), "nothing": torch.empty(0).long()}
    save(tmp_path, it=Holds(**state))
    again = Holds(none=None, one=None, nothing=None)
    assert resume(tmp_path, it=again) == 1
    for name, value in state.items():
        assert again.state[name].shape == value.shape
        assert again.state[name].dtype == value.dtype
        assert torch.equal(again.state[name], value)


@pytest.mark.parametrize("background", [False, True])
def test_saving_does_not_disturb_learning(tmp_path, background):
    seed()
    plain, stream = make(), Stream()
    go(plain, stream, 30)
    seed()
    saved, stream = make(), Stream()
    for step in range(30):
        go(saved, stream, 1)
        if step % 3 == 0:
            save(tmp_path, learner=saved, stream=stream, background=background)
    assert_same(snapshot(saved), snapshot(plain))


def test_the_first_start_is_a_start(tmp_path):
    learner = make()
    before = snapshot(learner)
    assert resume(tmp_path / "nothing", learner=learner) == 0
    tmp_path.joinpath("notes.txt").write_text("not ours")
    assert resume(tmp_path, learner=learner) == 0
    assert_same(snapshot(learner), before)


def test_the_last_generations_stay_and_strays_go(tmp_path):
    learner = make()
    (tmp_path / "00000007.writing").write_bytes(b"half")
    (tmp_path / "mine.txt").write_text("not ours")
    for _ in range(5):
        saving = save(tmp_path, learner=learner, keep=2)
    assert saving.generation == 5
    found = sorted(entry.name for entry in tmp_path.iterdir())
    assert found == ["00000004.safetensors", "00000005.safetensors", "mine.txt"]


def test_any_tool_can_read_it(tmp_path):
    learner = make()
    file = save(tmp_path, learner=learner).file
    found = load_file(file)
    for name, value in learner.state_dict().items():
        assert torch.equal(found[f"learner.{name}"], value)
    with safe_open(file, "pt") as content:
        manifest = json.loads(content.metadata()["manifest"])
    assert manifest["format"] == checkpoint.FORMAT
    assert manifest["torch"] == torch.__version__
    assert len(manifest["digest"]) == 64


class Anything:
    """Holds a state of any shape."""

    def __init__(self, state):
        self.state = state

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


STATES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=5)
    | st.floats(allow_nan=False)
    | st.sampled_from(list(checkpoint.DTYPES)).map(lambda dtype: torch.ones(2, 3).to(dtype))
    | st.sampled_from([(), (0,), (2, 0, 3)]).map(torch.zeros),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner)
    | st.dictionaries(st.sampled_from(["a", "b", "weight", "über", 0, 7]), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(STATES)
@examples(60)
def test_any_nested_state_comes_back(tmp_path_factory, state):
    folder = tmp_path_factory.mktemp("any")
    save(folder, thing=Anything(state))
    found = Anything(None)
    resume(folder, thing=found)
    assert alike(found.state, state)


def test_channels_last_and_shared_tensors_come_back(tmp_path):
    both = torch.randn(4)
    state = {
        "image": torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
        "a": both,
        "b": both,
    }
    save(tmp_path, thing=Anything(state))
    found = Anything(None)
    resume(tmp_path, thing=found)
    assert alike(found.state, state)


@pytest.mark.parametrize(
    "value", [torch.ones(2, dtype=torch.complex64), torch.eye(2).to_sparse(), {1, 2}, {(1, 2): 3}]
)
def test_a_state_that_cannot_be_saved_is_refused_and_nothing_is_written(tmp_path, value):
    with pytest.raises(TypeError, match=r"can be saved|cannot hold|keys"):
        save(tmp_path / "run", thing=Anything({"x": value}))
    assert not (tmp_path / "run").exists()


def test_arguments(tmp_path):
    with pytest.raises(TypeError, match="nothing to save"):
        save(tmp_path)
    with pytest.raises(
        TypeError, match="stream must have state_dict and load_state_dict, got list"
    ):
        resume(tmp_path, stream=[])
    with pytest.raises(TypeError, match="random is the name"):
        save(tmp_path, random=make())
    with pytest.raises(ValueError, match="keep must be"):
        save(tmp_path, keep=0, learner=make())


def test_folders_are_made_and_one_generation_may_be_all(tmp_path):
    folder = tmp_path / "a" / "b"
    for _ in range(3):
        save(folder, keep=1, learner=make())
    assert [file.name for file in folder.iterdir()] == ["00000003.safetensors"]
    other = tmp_path / "not a checkpoint"
    other.mkdir()
    assert resume(other, learner=make()) == 0


def test_what_can_be_saved_and_not_loaded_is_refused(tmp_path):
    class Half:
        def state_dict(self):
            return {}

    with pytest.raises(TypeError, match="thing must have state_dict and load_state_dict, got Half"):
        save(tmp_path, thing=Half())


def test_the_file_says_what_made_it_and_is_aligned(tmp_path):
    for width in range(1, 9):  # headers of other lengths
        file = save(tmp_path, learner=make(width=width)).file
        content = file.read_bytes()
        length = int.from_bytes(content[:8], "little")
        assert length % 8 == 0
        with safe_open(file, "pt") as opened:
            manifest = json.loads(opened.metadata()["manifest"])
        assert manifest["torch"] == torch.__version__
        assert manifest["taskfree"] == taskfree.__version__
        assert manifest["format"] == 1
    umask = os.umask(0)
    os.umask(umask)
    assert file.stat().st_mode & 0o777 == 0o666 & ~umask


def test_it_flushes_the_file_and_then_its_folder(tmp_path, monkeypatch):
    flushed = []
    fsync = os.fsync

    def watch(descriptor):
        flushed.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watch)
    save(tmp_path, learner=make())
    assert flushed == [str(tmp_path / "00000001.writing"), str(tmp_path)]


# What is refused, and why


def refused(folder, reason, **parts):
    """Resuming raises for this reason and changes nothing."""
    parts = parts or {"learner": make()}
    seed()
    before = {name: copy.deepcopy(value.state_dict()) for name, value in parts.items()}
    generators = random.getstate(), str(NUMPY.get_state()), torch.get_rng_state()
    with pytest.raises(CheckpointError, match=reason):
        resume(folder, **parts)
    for name, value in parts.items():
        assert alike(value.state_dict(), before[name])
    assert alike((random.getstate(), str(NUMPY.get_state()), torch.get_rng_state()), generators)


@pytest.fixture
def saved(tmp_path):
    learner = make()
    go(learner, Stream(), 12)
    return save(tmp_path / "run", learner=learner)


def test_what_does_not_fit_is_refused(saved):
    refused(
        saved.folder,
        "does not fit learner: .*load it into a learner with the model",
        learner=make(width=7),
    )
    refused(
        saved.folder, "does not fit learner: .*make it of the same parts", learner=make(how=None)
    )
    refused(
        saved.folder,
        "holds learner, random, and what is to be loaded is learner, random, stream",
        learner=make(),
        stream=Stream(),
    )
    refused(saved.folder, "holds learner, random", model=make())


class Fails(Stream):
    """A part that is loaded after another, and cannot be."""

    def load_state_dict(self, state):
        if state["position"] != self.position:
            raise KeyError("position")


def test_a_part_that_fails_takes_the_others_back(tmp_path):
    learner, stream = make(), Stream()
    go(learner, stream, 5)
    save(tmp_path, learner=learner, stream=stream)
    refused(tmp_path, "does not fit stream", learner=make(), stream=Fails())


def test_another_format(saved):
    content = saved.file.read_bytes()
    for old, new, reason in (
        (
            b'\\"format\\": 1',
            b'\\"format\\": 2',
            "has format 2, and this version .* use a newer one",
        ),
        (b'\\"format\\": 1', b'\\"format\\":"1', "has no manifest|makes no sense"),
        (b'"manifest"', b'"manifext"', "has no manifest: it is not a checkpoint"),
    ):
        assert old in content
        saved.file.write_bytes(content.replace(old, new, 1))
        refused(saved.folder, reason)


def test_a_foreign_file(saved):
    from safetensors.torch import save_file

    for write in (
        lambda: save_file({"x": torch.ones(2)}, saved.file),
        lambda: torch.save({"x": 1}, saved.file),  # noqa: TID251
        lambda: saved.file.write_bytes(b""),
        lambda: saved.file.write_bytes(b"hello"),
        lambda: saved.file.write_bytes(bytes(range(256)) * 40),
    ):
        write()
        refused(saved.folder, "no generation in .* can be used: 00000001.safetensors")


def test_every_bit_counts(tmp_path):
    """Flip each bit of a small file, cut it anywhere, add to it."""
    file = save(tmp_path, thing=Anything({"x": torch.arange(3.0), "n": 1})).file
    content = file.read_bytes()
    whole = Anything(None)
    resume(tmp_path, thing=whole)
    thing = Anything(None)
    start = len(content) - 5100  # the rest is the state of the random generators
    positions = [*range(1200), *range(start, len(content), 37)]
    for position in positions:
        for bit in (1, 8, 128) if position < 1200 else (1,):
            changed = bytearray(content)
            changed[position] ^= bit
            file.write_bytes(changed)
            with pytest.raises(CheckpointError):
                resume(tmp_path, thing=thing)
    for length in [*range(300), *range(300, len(content), 97)]:
        file.write_bytes(content[:length])
        with pytest.raises(CheckpointError):
            resume(tmp_path, thing=thing)
    file.write_bytes(content + b"\0")
    with pytest.raises(CheckpointError, match="SHA-256"):
        resume(tmp_path, thing=thing)
    file.write_bytes(content)
    resume(tmp_path, thing=thing)
    assert alike(thing.state, whole.state)


def test_a_damaged_newest_generation_falls_back_and_says_so(tmp_path):
    learner, stream = make(), Stream()
    for _ in range(3):
        go(learner, stream, 4)
        saving = save(tmp_path, learner=learner)
    saving.file.write_bytes(saving.file.read_bytes()[:-10])
    again = make()
    with pytest.warns(
        UserWarning, match=r"00000003.safetensors is damaged.*going on from 00000002"
    ):
        assert resume(tmp_path, learner=again) == 2
    assert again.step == 8
    with warnings.catch_warnings(record=True):
        assert save(tmp_path, learner=again).generation == 4


# What fails while it writes


class Broken:
    """Fails the n-th of the calls that a save makes to the system."""

    def __init__(self, monkeypatch, at, code):
        self.left, self.code = at, code
        for module, name in (
            (os, "write"),
            (os, "fsync"),
            (os, "open"),
            (os, "rename"),
            (os, "replace"),
        ):
            monkeypatch.setattr(module, name, self.wrap(getattr(module, name)))

    def wrap(self, function):
        def call(*args, **options):
            self.left -= 1
            if self.left == 0:
                raise OSError(self.code, os.strerror(self.code))
            return function(*args, **options)

        return call


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("background", [False, True])
def test_a_disk_that_fails_leaves_the_old_or_the_new_state(tmp_path, code, background):
    learner, stream = make(), Stream()
    go(learner, stream, 3)
    failed = 0
    for at in range(1, 200):
        folder = tmp_path / str(at)
        save(folder, learner=learner)
        old = snapshot(learner)
        go(learner, stream, 1)
        new = snapshot(learner)
        with pytest.MonkeyPatch.context() as patch:
            Broken(patch, at, code)
            done = True
            try:
                save(folder, learner=learner, background=background).wait()
            except OSError as error:
                done, failed = False, failed + (error.errno == code)
        again = make()
        resume(folder, learner=again)
        found = snapshot(again)
        assert any(alike(found, state) for state in ([new] if done else [old, new]))
        assert not list(folder.glob("*.writing"))
        shutil.rmtree(folder)
        if done:
            break
    assert failed > 40  # header, every tensor, fsync, rename, the folder


def test_background_saves_the_state_of_the_call_and_says_what_went_wrong(tmp_path):
    learner, stream = make(), Stream()
    go(learner, stream, 3)
    expected = snapshot(learner)
    saving = save(tmp_path, learner=learner, background=True)
    go(learner, stream, 5)
    saving.wait()
    again = make()
    resume(tmp_path, learner=again)
    assert_same(snapshot(again), expected)
    assert threading.active_count() == 1 or not any(
        "saving" in t.name for t in threading.enumerate()
    )

    with pytest.MonkeyPatch.context() as patch:
        Broken(patch, 3, errno.ENOSPC)
        save(tmp_path, learner=learner, background=True)._thread.join()
    with pytest.raises(OSError, match="No space left"):
        save(tmp_path, learner=learner)
    assert save(tmp_path, learner=learner).generation == 2


def test_nothing_runs_on_loading(saved):
    """An audit hook sees no code executed, and no pickle, while a checkpoint is read."""
    events = []
    watching = [True]
    sys.addaudithook(lambda event, _: events.append(event) if watching[0] else None)
    learner = make()
    watching[0] = True
    events.clear()
    resume(saved.folder, learner=learner)
    watching[0] = False
    assert "open" in events  # the hook sees
    assert not {
        e
        for e in events
        if e
        in (
            "exec",
            "compile",
            "import",
            "pickle.find_class",
            "os.system",
            "subprocess.Popen",
            "os.exec",
        )
    }
