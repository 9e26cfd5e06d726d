"""A file is replaced whole or not at all."""

import errno
import json
import os
from pathlib import Path

import pytest

from taskfree._core import files
from taskfree._core.files import UNFINISHED, atomic_write, read_json, write_bytes, write_json


class Interrupted(BaseException):
    """Raised by a test, like KeyboardInterrupt."""


def content(folder):
    """The files of a folder, by name."""
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.parametrize("durable", [True, False])
def test_a_write_replaces_the_file_and_leaves_no_other(tmp_path, durable):
    file = tmp_path / "log.txt"
    for text in (b"first", b"second"):
        with atomic_write(file, durable=durable) as unfinished:
            assert unfinished != file
            unfinished.write_bytes(text)
        assert content(tmp_path) == {"log.txt": text}


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("error", [ValueError, Interrupted])
@pytest.mark.parametrize("before", [b"old", None])
@pytest.mark.parametrize("started", [True, False])
def test_a_block_that_raises_leaves_the_old_file(tmp_path, durable, error, before, started):
    file = tmp_path / "log.txt"
    if before is not None:
        file.write_bytes(before)
    expected = content(tmp_path)

    def write():
        with atomic_write(file, durable=durable) as unfinished:
            if started:
                unfinished.write_bytes(b"half")
            raise error

    with pytest.raises(error):
        write()
    assert content(tmp_path) == expected


def test_the_old_file_is_there_until_the_new_one_is_whole(tmp_path):
    file = tmp_path / "log.txt"
    file.write_bytes(b"old")
    with atomic_write(file) as unfinished:
        unfinished.write_bytes(b"new")
        assert file.read_bytes() == b"old"
    assert file.read_bytes() == b"new"


def test_the_temporary_file_keeps_the_suffix_and_is_recognizable(tmp_path):
    with atomic_write(tmp_path / "figure.v2.png", durable=False) as unfinished:
        unfinished.touch()
        assert unfinished.parent == tmp_path
        assert unfinished.suffix == ".png"
        assert UNFINISHED in unfinished.name
        assert unfinished.name.startswith("figure.v2")


def watched(monkeypatch, fails_at=None):
    """Record each fsync and each replacement, in order; the fsync with number `fails_at` fails."""
    happened = []
    fsync, replace = os.fsync, Path.replace

    def watch_fsync(descriptor):
        happened.append(("fsync", os.readlink(f"/proc/self/fd/{descriptor}")))
        if sum(kind == "fsync" for kind, _ in happened) == fails_at:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(descriptor)

    def watch_replace(source, target):
        happened.append(("replace", str(target)))
        return replace(source, target)

    monkeypatch.setattr(os, "fsync", watch_fsync)
    monkeypatch.setattr(Path, "replace", watch_replace)
    return happened


def test_a_durable_write_flushes_the_file_then_replaces_it_then_flushes_the_folder(
    tmp_path, monkeypatch
):
    happened = watched(monkeypatch)
    write_bytes(tmp_path / "log.txt", b"new")
    assert happened == [
        ("fsync", str(tmp_path / f"log{UNFINISHED}.txt")),
        ("replace", str(tmp_path / "log.txt")),
        ("fsync", str(tmp_path)),
    ]


def test_a_write_that_is_not_durable_flushes_nothing(tmp_path, monkeypatch):
    happened = watched(monkeypatch)
    write_bytes(tmp_path / "log.txt", b"new", durable=False)
    write_json(tmp_path / "log.json", {"step": 1}, durable=False)
    assert [kind for kind, _ in happened] == ["replace", "replace"]


def test_a_disk_that_fails_before_the_replacement_leaves_the_old_file(tmp_path, monkeypatch):
    (tmp_path / "log.txt").write_bytes(b"old")
    watched(monkeypatch, fails_at=1)
    with pytest.raises(OSError, match="Input/output error"):
        write_bytes(tmp_path / "log.txt", b"new")
    assert content(tmp_path) == {"log.txt": b"old"}


def test_a_disk_that_fails_after_the_replacement_leaves_the_new_file(tmp_path, monkeypatch):
    (tmp_path / "log.txt").write_bytes(b"old")
    watched(monkeypatch, fails_at=2)
    with pytest.raises(OSError, match="Input/output error"):
        write_bytes(tmp_path / "log.txt", b"new")
    assert content(tmp_path) == {"log.txt": b"new"}


def test_flushing_closes_its_descriptor_even_if_it_fails(tmp_path, monkeypatch):
    def opened():
        return len(os.listdir("/proc/self/fd"))

    before = opened()
    files.sync(tmp_path)
    assert opened() == before
    watched(monkeypatch, fails_at=1)
    with pytest.raises(OSError, match="Input/output error"):
        files.sync(tmp_path)
    assert opened() == before


def test_json_survives_writing(tmp_path):
    value = {"step": 3, "text": "über", "losses": [0.1, None]}
    write_json(tmp_path / "a.json", value)
    assert read_json(tmp_path / "a.json") == value
    assert json.loads((tmp_path / "a.json").read_text()) == value


def test_what_json_cannot_hold_leaves_the_old_file(tmp_path):
    write_json(tmp_path / "a.json", 1)
    with pytest.raises(TypeError, match="not JSON serializable"):
        write_json(tmp_path / "a.json", {1, 2})
    assert content(tmp_path) == {"a.json": b"1"}


@pytest.mark.parametrize("damaged", [b"", b'{"step": ', b"\xff\xfe{"])
def test_a_damaged_json_file_reads_as_none(tmp_path, damaged):
    file = tmp_path / "a.json"
    assert read_json(file) is None
    file.write_bytes(damaged)
    assert read_json(file) is None


def test_a_json_file_that_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(IsADirectoryError):
        read_json(tmp_path)
