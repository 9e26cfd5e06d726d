"""Fail every system call of a save, one after the other: the old or the new state is there then.

The n-th write, fsync, open or rename of a save is made to fail: the process is killed before it,
killed after a write of half the bytes, or told that the disk is full or broken.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kill import Save, resume, save
from subject import fingerprint, isolated, subject

from taskfree.checkpoint import CheckpointError

CALLS = ("write", "fsync", "open", "replace", "rename", "unlink")
WAYS = ("killed", "killed half way", "ENOSPC", "EIO")


def inject(at: int, way: str) -> list[int]:
    """Make the `at`-th call from now on fail; the answer counts the calls."""
    count = [0]

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            count[0] += 1
            if count[0] == at:
                if way == "killed half way" and function.__name__ == "write":
                    function(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                if way.startswith("killed"):
                    os.kill(os.getpid(), signal.SIGKILL)
                raise OSError(getattr(errno, way), way)
            return function(*arguments, **options)

        return call

    for name in CALLS:
        setattr(os, name, wrap(getattr(os, name)))
    return count


def state(folder: Path) -> list[str]:
    """The fingerprint of what is there."""
    learner, stream = subject()
    try:
        resume(folder, learner, stream)
    except CheckpointError:
        return ["nothing that can be used"]
    return [fingerprint(learner, stream)]


def once(folder: Path, at: int, way: str, save: Save) -> tuple[str, bool]:
    """What is there after a save whose `at`-th call fails, and whether there was such a call."""

    def attempt() -> list[str]:
        learner, stream = subject()
        for _ in range(3):
            learner.learn(*stream.next())
        save(folder, learner, stream)
        old = fingerprint(learner, stream)
        learner.learn(*stream.next())
        new = fingerprint(learner, stream)
        (folder / "expected").write_text(f"{old} {new}")
        count = inject(at, way)
        try:
            save(folder, learner, stream)
        except OSError:
            return ["failed"]
        return ["failed" if count[0] >= at else "done"]

    shutil.rmtree(folder, ignore_errors=True)
    told = isolated(attempt)
    old, new = (folder / "expected").read_text().split()
    (found,) = isolated(lambda: state(folder))
    names = {old: "old", new: "new"}
    return names.get(found, "neither"), told != ["done"]


def run(save: Save = save, ways: tuple[str, ...] = WAYS) -> dict[str, int]:
    """Every call, every way; counts of what was there after it."""
    counts = {"cases": 0, "old": 0, "new": 0, "neither": 0}
    folder = Path(tempfile.gettempdir()) / f"taskfree-faults-{os.getpid()}"
    for way in ways:
        at, failed = 1, True
        while failed:
            found, failed = once(folder, at, way, save)
            counts["cases"] += failed
            counts[found] += 1
            at += 1
    shutil.rmtree(folder, ignore_errors=True)
    return counts
