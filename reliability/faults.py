"""Fail every system call of a save, one after the other: the old or the new state must remain.

The n-th write, fsync, open or rename of a save fails: the process is killed before the call, killed
after a write of half the bytes, or gets the error of a full or broken disk.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kill import Save, resume, save
from subject import fingerprint, isolated, subject

from taskfree.checkpoint import CheckpointError

CALLS = ("write", "fsync", "open", "replace", "rename", "unlink")
WAYS = ("killed", "killed half way", "ENOSPC", "EIO")


def inject(at: int, way: str) -> list[int]:
    """Make the `at`-th call from now on fail; returns a counter of the calls."""
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


def prepare(root: Path, save: Save) -> list[str]:
    """Save a state and the next one to two folders; return their fingerprints."""
    learner, stream = subject()
    for _ in range(3):
        learner.learn(*stream.next())
    save(root / "old", learner, stream)
    old = fingerprint(learner, stream)
    learner.learn(*stream.next())
    save(root / "new", learner, stream)
    return [old, fingerprint(learner, stream)]


def state(folder: Path) -> str:
    """The fingerprint of the state in a folder."""
    learner, stream = subject()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            resume(folder, learner, stream)
    except CheckpointError:
        return "nothing that can be used"
    return fingerprint(learner, stream)


def once(root: Path, at: int, way: str, save: Save) -> bool:
    """Save the new state over the old one, with a fault; whether there was an `at`-th call."""

    def attempt() -> bool:
        learner, stream = subject()
        resume(root / "new", learner, stream)
        count = inject(at, way)
        try:
            save(root / "case", learner, stream)
        except OSError:
            return True
        return count[0] >= at

    shutil.rmtree(root / "case", ignore_errors=True)
    shutil.copytree(root / "old", root / "case")
    return isolated(attempt) is not False  # None: it was killed


def run(save: Save = save, ways: tuple[str, ...] = WAYS) -> dict[str, int]:
    """Every call, every way; return counts of the states that remained."""
    counts = {"cases": 0, "old": 0, "new": 0, "neither": 0}
    root = Path(tempfile.mkdtemp(prefix="taskfree-faults-"))
    names = dict(zip(isolated(lambda: prepare(root, save)), ("old", "new"), strict=True))
    for way in ways:
        at, failed = 1, True
        while failed:
            failed = once(root, at, way, save)
            counts["cases"] += failed
            counts[names.get(state(root / "case"), "neither")] += 1
            at += 1
    shutil.rmtree(root)
    return counts
