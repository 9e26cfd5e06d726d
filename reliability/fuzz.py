"""Change checkpoint files at random: each must be refused, with a CheckpointError."""

from __future__ import annotations

import pickle  # noqa: TID251
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from taskfree import checkpoint
from taskfree.checkpoint import format as file_format

Mutation = Callable[[random.Random, bytes, bytes], bytes]


def flip(draw: random.Random, content: bytes, _: bytes) -> bytes:
    """Flip bits, anywhere or in the header."""
    changed = bytearray(content)
    end = draw.choice([8, 600, len(content)])
    for _ in range(draw.randint(1, 8)):
        changed[draw.randrange(end)] ^= 1 << draw.randrange(8)
    return bytes(changed)


def cut(draw: random.Random, content: bytes, _: bytes) -> bytes:
    """Cut off the end."""
    return content[: draw.randrange(len(content))]


def append(draw: random.Random, content: bytes, _: bytes) -> bytes:
    """Append bytes."""
    return content + draw.randbytes(draw.randint(1, 64))


def overwrite(draw: random.Random, content: bytes, _: bytes) -> bytes:
    """Replace some bytes."""
    start = draw.randrange(len(content))
    noise = draw.randbytes(draw.randint(1, 64))
    return (content[:start] + noise + content[start + len(noise) :])[: len(content)]


def move(draw: random.Random, content: bytes, _: bytes) -> bytes:
    """Remove a piece, double it, or fill it with zeros, as a file system may."""
    start = draw.randrange(len(content))
    end = min(len(content), start + draw.choice([1, 8, 512, 4096]))
    piece = draw.choice([b"", content[start:end] * 2, b"\0" * (end - start)])
    return content[:start] + piece + content[end:]


def splice(draw: random.Random, content: bytes, other: bytes) -> bytes:
    """Join the header of one file and the body of another, or two halves."""
    place = draw.choice([8 + int.from_bytes(content[:8], "little"), draw.randrange(len(content))])
    return content[:place] + other[place:]


def digest(draw: random.Random, content: bytes, other: bytes) -> bytes:
    """Replace the digest by that of another file, zeros or noise."""
    mark = b'digest\\": \\"'
    place, there = content.index(mark) + len(mark), other.index(mark) + len(mark)
    new = draw.choice([other[there : there + 64], b"0" * 64, draw.randbytes(32).hex().encode()])
    return content[:place] + new + content[place + 64 :]


MUTATIONS: tuple[Mutation, ...] = (flip, cut, append, overwrite, move, splice, digest)


CODE = ("exec", "compile", "import", "pickle.find_class", "os.system", "os.exec", "os.spawn",
        "subprocess.Popen", "ctypes.dlopen", "marshal.loads")  # fmt: skip
"""Audit events of code that is run, or is about to be."""
_seen: dict[str, int] = {"code events": 0}


def _audit(event: str, _: object) -> None:
    if _watching and event in CODE:
        _seen["code events"] += 1


_watching: list[bool] = []
sys.addaudithook(_audit)


LIMIT = 60.0
"""Seconds of CPU time to read a file; reading one takes less than a millisecond."""


class Hang(BaseException):
    """Reading a file took too much CPU time."""


def alarm(*_: object) -> None:
    """Called when a file takes longer than the limit."""
    raise Hang


def run(files: int, seed: int = 0) -> dict[str, int]:
    """Change this many files; return counts of what happened."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    draw = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="taskfree-fuzz-"))
    models = [nn.Linear(3, 2), nn.Linear(3, 2)]
    originals = []
    for number, model in enumerate(models):
        originals.append(checkpoint.save(folder / str(number), model=model).file.read_bytes())
    file = folder / "0" / "00000001.safetensors"
    checkpoint.resume(folder / "0", model=models[0])  # imports happen now
    counts = {"files": 0, "refused": 0, "accepted": 0, "other errors": 0, "hangs": 0}
    _seen["code events"] = 0
    signal.signal(signal.SIGPROF, alarm)
    while counts["files"] < files:
        changed = draw.choice(MUTATIONS)(draw, *originals)
        if changed in originals:
            continue
        file.write_bytes(changed)
        counts["files"] += 1
        signal.setitimer(signal.ITIMER_PROF, LIMIT)
        _watching.append(True)
        try:
            checkpoint.resume(folder / "0", model=models[0])
            counts["accepted"] += 1
        except checkpoint.CheckpointError:
            counts["refused"] += 1
        except Hang:
            counts["hangs"] += 1
        except Exception:
            counts["other errors"] += 1
        finally:
            _watching.clear()
            signal.setitimer(signal.ITIMER_PROF, 0)
    shutil.rmtree(folder)
    return counts | _seen


class _Harm:
    """An object whose pickle runs code."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return eval, ("1 + 1",)


def unpickle() -> dict[str, int]:
    """A control: the audit hook notices the code that a pickle runs."""
    content = pickle.dumps(_Harm())
    _watching.append(True)
    pickle.loads(content)  # noqa: S301
    _watching.clear()
    return dict(_seen)


def without_digest(files: int) -> dict[str, int]:
    """A control: files are not checked before they are read."""
    check, file_format.check = file_format.check, lambda file: None
    try:
        return run(files)
    finally:
        file_format.check = check
