"""Kill a learner at random moments while it learns and saves, and resume it.

A child process learns and saves after every step. It is killed (SIGKILL) at a random moment and
another goes on from what is left, until all steps are learned; then it begins anew. When a child
resumes, its state must be that of the run that was never killed, at that step, bit for bit.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from subject import Stream, fingerprint, isolated, subject

from taskfree import Learner, checkpoint

Save = Callable[[Path, Learner, Stream], None]
Resume = Callable[[Path, Learner, Stream], None]
STEPS = 40
MISMATCH, LOST = 3, 4


def save(folder: Path, learner: Learner, stream: Stream) -> None:
    """The library's."""
    checkpoint.save(folder, learner=learner, stream=stream)


def resume(folder: Path, learner: Learner, stream: Stream) -> None:
    """The library's."""
    checkpoint.resume(folder, learner=learner, stream=stream)


def save_in_place(folder: Path, learner: Learner, stream: Stream) -> None:
    """A control: one file, written over where it is."""
    folder.mkdir(exist_ok=True)
    tensors = checkpoint._collect(
        {"learner": learner, "stream": stream, "random": checkpoint.Generators()}, copy=False
    )
    checkpoint._write(folder / "00000001.safetensors", tensors)


def save_without_momentum(folder: Path, learner: Learner, stream: Stream) -> None:
    """A control: the optimizer's momentum is not saved."""
    kept = dict(learner.optimizer.state)
    learner.optimizer.state.clear()
    checkpoint.save(folder, learner=learner, stream=stream)
    learner.optimizer.state.update(kept)


def reference(steps: int) -> list[str]:
    """The fingerprint after each step of a run that is never killed, from 0."""
    learner, stream = subject()
    found = [fingerprint(learner, stream)]
    for _ in range(steps):
        learner.learn(*stream.next())
        found.append(fingerprint(learner, stream))
    return found


def child(folder: Path, expected: list[str], save: Save) -> int:
    """Go on from what is there, to the end; how it went."""
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


def run(kills: int, seed: int = 0, save: Save = save, patience: float = 0.25) -> dict[str, int]:
    """Kill so many times; count what was found."""
    torch.set_num_threads(1)
    chance = random.Random(seed)
    folder = Path(tempfile.gettempdir()) / f"taskfree-kill-{os.getpid()}-{seed}"
    expected = isolated(lambda: reference(STEPS))
    counts = {"kills": 0, "inside a write": 0, "mismatches": 0, "lost": 0, "runs finished": 0}
    while counts["kills"] < kills:
        process = os.fork()
        if process == 0:
            code = 99
            try:
                code = child(folder, expected, save)
            finally:
                os._exit(code)
        time.sleep(chance.random() * patience)
        os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        if os.WIFSIGNALED(status):
            counts["kills"] += 1
            counts["inside a write"] += bool(list(folder.glob("*.writing")))
        elif os.WEXITSTATUS(status) == 0:
            counts["runs finished"] += 1
            shutil.rmtree(folder, ignore_errors=True)
        elif os.WEXITSTATUS(status) in (MISMATCH, LOST):
            counts["lost" if os.WEXITSTATUS(status) == LOST else "mismatches"] += 1
            shutil.rmtree(folder, ignore_errors=True)
        else:
            raise RuntimeError(f"a child ended with status {status}")
    shutil.rmtree(folder, ignore_errors=True)
    return counts
