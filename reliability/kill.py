"""Kill a learner at random moments while it learns and saves, and resume it.

A child process learns and saves after every step. It is killed (SIGKILL) at a random moment and
another continues from what is left, until all steps are learned; then it starts over. When a child
resumes, its state must be that of the run that was never killed, at that step, bit for bit.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from killer import Killer
from subject import Stream, fingerprint, isolated, subject

from taskfree import Learner, checkpoint
from taskfree._core.random_state import GlobalGenerators
from taskfree.checkpoint import format as file_format
from taskfree.checkpoint import generations

Save = Callable[[Path, Learner, Stream], None]
MISMATCH, LOST = 3, 4


def save(folder: Path, learner: Learner, stream: Stream) -> None:
    """The library's."""
    checkpoint.save(folder, learner=learner, stream=stream)


def resume(folder: Path, learner: Learner, stream: Stream) -> None:
    """The library's."""
    checkpoint.resume(folder, learner=learner, stream=stream)


def save_in_place(folder: Path, learner: Learner, stream: Stream) -> None:
    """A control: one file, opened for writing and then overwritten in place."""
    folder.mkdir(exist_ok=True)
    file = folder / "00000001.safetensors"
    file.write_bytes(b"")
    parts = {"learner": learner, "stream": stream, "random": GlobalGenerators()}
    file_format.write(file, generations._collect(parts, copy=False))


def save_without_momentum(folder: Path, learner: Learner, stream: Stream) -> None:
    """A control: the optimizer's momentum is not saved."""
    momentum = dict(learner.optimizer.state)
    learner.optimizer.state.clear()
    checkpoint.save(folder, learner=learner, stream=stream)
    learner.optimizer.state.update(momentum)


def reference(steps: int) -> list[str]:
    """The fingerprint after each step of a run that is never killed, from 0."""
    learner, stream = subject()
    found = [fingerprint(learner, stream)]
    for _ in range(steps):
        learner.learn(*stream.next())
        found.append(fingerprint(learner, stream))
    return found


def child(folder: Path, expected: list[str], save: Save) -> int:
    """Continue from what is there, to the end; return how it went."""
    learner, stream = subject()
    try:
        resume(folder, learner, stream)
    except checkpoint.CheckpointError:
        return LOST
    if fingerprint(learner, stream) != expected[learner.step]:
        return MISMATCH
    while learner.step < len(expected) - 1:
        learner.learn(*stream.next())
        save(folder, learner, stream)
    return 0 if fingerprint(learner, stream) == expected[-1] else MISMATCH


def run(
    kills: int,
    *,
    steps: int = 40,
    seed: int = 0,
    save: Save = save,
    by_calls: bool = False,
    control: bool = False,
) -> dict[str, int]:
    """Kill this many times, a control only until it fails; return counts of what was found."""
    root = Path(tempfile.mkdtemp(prefix="taskfree-kill-"))
    folder, killer = root / "killed", Killer(seed, by_calls)
    expected = isolated(lambda: reference(steps))
    killer.measure(lambda: child(root / "whole", expected, save))
    counts = {"kills": 0, "inside a write": 0, "mismatches": 0, "lost": 0, "runs finished": 0}
    names = {0: "runs finished", MISMATCH: "mismatches", LOST: "lost"}
    while counts["kills"] < kills:
        status = killer.attempt(lambda: child(folder, expected, save))
        if status is None:
            counts["kills"] += 1
            counts["inside a write"] += any(folder.glob("*.writing*"))
        else:
            counts[names[status]] += 1
            shutil.rmtree(folder, ignore_errors=True)
            if control and status:
                break
    shutil.rmtree(root)
    return counts
