"""The file of a generation: what it holds, who can read it, and how damage is found."""

import json
import os
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import taskfree
from examples import examples
from resumable import Holder, RandomStream, alike, assert_refused, learn, make
from taskfree.checkpoint import CheckpointError, resume, save
from taskfree.checkpoint import format as file_format

STATES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=5)
    | st.floats(allow_nan=False)
    | st.sampled_from(list(file_format.DTYPES)).map(lambda dtype: torch.ones(2, 3).to(dtype))
    | st.sampled_from([(), (0,), (2, 0, 3)]).map(torch.zeros),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner)
    | st.dictionaries(st.sampled_from(["a", "b", "weight", "über", 0, 7]), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(STATES)
@examples(60)
def test_any_nested_state_survives_saving(tmp_path_factory, state):
    folder = tmp_path_factory.mktemp("any")
    save(folder, thing=Holder(state))
    found = Holder()
    resume(folder, thing=found)
    assert alike(found.state, state)


def test_empty_tensors_of_any_shape_survive_saving(tmp_path):
    state = {"none": torch.empty(0, 3), "one": torch.ones(1), "nothing": torch.empty(0).long()}
    save(tmp_path, thing=Holder(state))
    found = Holder()
    assert resume(tmp_path, thing=found) == 1
    assert alike(found.state, state)


def test_channels_last_and_shared_tensors_survive_saving(tmp_path):
    both = torch.randn(4)
    image = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    state = {"image": image, "a": both, "b": both}
    save(tmp_path, thing=Holder(state))
    found = Holder()
    resume(tmp_path, thing=found)
    assert alike(found.state, state)


def test_any_tool_for_safetensors_reads_a_checkpoint(tmp_path):
    learner = make()
    found = load_file(save(tmp_path, learner=learner).file)
    for name, value in learner.state_dict().items():
        assert torch.equal(found[f"learner.{name}"], value)


def test_the_manifest_names_the_versions_and_the_header_is_aligned(tmp_path):
    for width in range(1, 9):  # headers of different lengths
        file = save(tmp_path, learner=make(width=width)).file
        content = file.read_bytes()
        length = int.from_bytes(content[:8], "little")
        assert length % 8 == 0
        with safe_open(file, "pt") as opened:
            manifest = json.loads(opened.metadata()["manifest"])
        assert manifest["torch"] == torch.__version__
        assert manifest["taskfree"] == taskfree.__version__
        assert manifest["format"] == file_format.FORMAT == 1
        assert len(manifest["digest"]) == 64
    umask = os.umask(0)
    os.umask(umask)
    assert file.stat().st_mode & 0o777 == 0o666 & ~umask


def test_a_write_that_the_system_does_in_parts_is_whole(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, content: write(file, content[:7]))
    state = {"x": torch.arange(100.0)}
    save(tmp_path, thing=Holder(state))
    found = Holder()
    resume(tmp_path, thing=found)
    assert alike(found.state, state)


@pytest.fixture
def saved(tmp_path):
    learner = make()
    learn(learner, RandomStream(), 12)
    return save(tmp_path / "run", learner=learner)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b'\\"format\\": 1', b'\\"format\\": 2', "has format 2, and this version .* use a newer one"),
        (b'\\"format\\": 1', b'\\"format\\":"1', "has no manifest|has an invalid manifest"),
        (b'"manifest"', b'"manifext"', "has no manifest: it is not a checkpoint"),
    ],
)  # fmt: skip
def test_another_format_is_refused(saved, old, new, reason):
    content = saved.file.read_bytes()
    assert old in content
    saved.file.write_bytes(content.replace(old, new, 1))
    assert_refused(saved.folder, reason)


@pytest.mark.parametrize(
    "write",
    [
        lambda file: save_file({"x": torch.ones(2)}, file),
        lambda file: torch.save({"x": 1}, file),  # noqa: TID251
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(b"hello"),
        lambda file: file.write_bytes(bytes(range(256)) * 40),
    ],
)
def test_a_file_of_another_kind_is_refused(saved, write):
    write(saved.file)
    assert_refused(saved.folder, "no generation in .* can be used: 00000001.safetensors")


def test_every_changed_bit_and_every_cut_is_found(tmp_path):
    file = save(tmp_path, thing=Holder({"x": torch.arange(3.0), "n": 1})).file
    content = file.read_bytes()
    whole, thing = Holder(), Holder()
    resume(tmp_path, thing=whole)
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


FORBIDDEN = {
    "exec", "compile", "import", "pickle.find_class", "os.system", "subprocess.Popen", "os.exec",
}  # fmt: skip


def test_loading_runs_no_code(saved):
    """An audit hook sees no code executed, and no pickle, while a checkpoint is read."""
    events = []
    watching = [False]
    sys.addaudithook(lambda event, _: events.append(event) if watching[0] else None)
    learner = make()
    watching[0] = True
    resume(saved.folder, learner=learner)
    watching[0] = False
    assert "open" in events, "the hook works"
    assert not FORBIDDEN.intersection(events)
