"""Change checkpoint files at random: none is accepted, and all are refused by one kind of error."""

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

Mutation = Callable[[random.Random, bytes, bytes], bytes]


def flip(chance: random.Random, content: bytes, _: bytes) -> bytes:
    """Some bits, anywhere or in the header."""
    changed = bytearray(content)
    end = chance.choice([8, 600, len(content)])
    for _ in range(chance.randint(1, 8)):
        changed[chance.randrange(end)] ^= 1 << chance.randrange(8)
    return bytes(changed)


def cut(chance: random.Random, content: bytes, _: bytes) -> bytes:
    """The end is missing."""
    return content[: chance.randrange(len(content))]


def more(chance: random.Random, content: bytes, _: bytes) -> bytes:
    """There is more at the end."""
    return content + chance.randbytes(chance.randint(1, 64))


def overwrite(chance: random.Random, content: bytes, _: bytes) -> bytes:
    """Some bytes are others."""
    start = chance.randrange(len(content))
    noise = chance.randbytes(chance.randint(1, 64))
    return (content[:start] + noise + content[start + len(noise) :])[: len(content)]


def move(chance: random.Random, content: bytes, _: bytes) -> bytes:
    """A piece is left out, doubled, or zero, as a file system may leave it."""
    start = chance.randrange(len(content))
    end = min(len(content), start + chance.choice([1, 8, 512, 4096]))
    piece = chance.choice([b"", content[start:end] * 2, b"\0" * (end - start)])
    return content[:start] + piece + content[end:]


def splice(chance: random.Random, content: bytes, other: bytes) -> bytes:
    """The header of one file and the body of another, or two halves."""
    place = chance.choice(
        [8 + int.from_bytes(content[:8], "little"), chance.randrange(len(content))]
    )
    return content[:place] + other[place:]


def digest(chance: random.Random, content: bytes, other: bytes) -> bytes:
    """The digest of another file, or none."""
    mark = b'digest\\": \\"'
    place, there = content.index(mark) + len(mark), other.index(mark) + len(mark)
    new = chance.choice([other[there : there + 64], b"0" * 64, chance.randbytes(32).hex().encode()])
    return content[:place] + new + content[place + 64 :]


MUTATIONS: tuple[Mutation, ...] = (flip, cut, more, overwrite, move, splice, digest)


CODE = ("exec", "compile", "import", "pickle.find_class", "os.system", "os.exec", "os.spawn",
        "subprocess.Popen", "ctypes.dlopen", "marshal.loads")  # fmt: skip
"""What an audit hook is told when code is run, or is about to be."""
_seen: dict[str, int] = {"code events": 0}


def _audit(event: str, _: object) -> None:
    if _watching and event in CODE:
        _seen["code events"] += 1


_watching: list[bool] = []
sys.addaudithook(_audit)


class Hang(BaseException):
    """Reading a file took too long."""


def alarm(*_: object) -> None:
    """Called when a file takes longer than five seconds."""
    raise Hang


def run(files: int, seed: int = 0) -> dict[str, int]:
    """So many changed files; counts of what came of them."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    chance = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="taskfree-fuzz-"))
    models = [nn.Linear(3, 2), nn.Linear(3, 2)]
    originals = []
    for number, model in enumerate(models):
        originals.append(checkpoint.save(folder / str(number), model=model).file.read_bytes())
    file = folder / "0" / "00000001.safetensors"
    checkpoint.resume(folder / "0", model=models[0])  # what is imported at the first time
    counts = {"files": 0, "refused": 0, "accepted": 0, "other errors": 0, "hangs": 0}
    _seen["code events"] = 0
    signal.signal(signal.SIGALRM, alarm)
    while counts["files"] < files:
        changed = chance.choice(MUTATIONS)(chance, *originals)
        if changed in originals:
            continue
        file.write_bytes(changed)
        counts["files"] += 1
        signal.setitimer(signal.ITIMER_REAL, 5)
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
            signal.setitimer(signal.ITIMER_REAL, 0)
    shutil.rmtree(folder)
    return counts | _seen


class _Harm:
    """What a pickle can hold."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return eval, ("1 + 1",)


def unpickle() -> dict[str, int]:
    """A control: the hook sees the code that a pickle runs."""
    content = pickle.dumps(_Harm())
    _watching.append(True)
    pickle.loads(content)  # noqa: S301
    _watching.clear()
    return dict(_seen)


def without_digest(files: int) -> dict[str, int]:
    """A control: the digest is not looked at."""
    checked, checkpoint._check_file = checkpoint._check_file, lambda file: None
    try:
        return run(files)
    finally:
        checkpoint._check_file = checked
