"""Checkpoints that survive a crash at any moment, and are refused if anything is wrong with them.

A folder holds the last generations, one file each, written by one process at a time. A file is in
the safetensors format, so that any tool that reads it can; its metadata has a manifest with a
SHA-256 over the whole file. It is written under another name, flushed to the disk and only then
given its name, so that a generation is there whole or not at all. Nothing is ever unpickled.

    checkpoint.save("run", learner=learner, stream=stream)
    checkpoint.resume("run", learner=learner, stream=stream)  # at the first start: does nothing
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import json
import os
import random
import re
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed as dist
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from taskfree import arguments
from taskfree.state import pack, part, unpack

__all__ = ["CheckpointError", "Saving", "peek", "resume", "save"]

FORMAT = 1
"""The version of the format. A file of a newer one is refused."""
LARGEST_HEADER = 100_000_000
"""Bytes: safetensors' own limit."""
ENDING, UNFINISHED = ".safetensors", ".writing"
RANDOM = "random"
"""The part that the random generators are saved as."""
UNKNOWN = "0" * 64
"""Stands in the place of the digest while it is computed."""
DTYPES = {
    torch.bool: "BOOL", torch.uint8: "U8", torch.int8: "I8", torch.int16: "I16",
    torch.int32: "I32", torch.int64: "I64", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.float32: "F32", torch.float64: "F64",
}  # fmt: skip


class CheckpointError(ValueError):
    """A checkpoint cannot be used, for the reason it gives. Nothing was loaded."""


class Stateful(Protocol):
    """What can be saved: learners, optimizers, schedulers, metrics, streams, modules."""

    def state_dict(self) -> Any:
        """Tensors, numbers, strings and None, in dicts, lists and tuples."""

    def load_state_dict(self, state: Any) -> Any:
        """Continue from a saved state."""


# Saving


def save(
    path: str | os.PathLike[str], *, keep: int = 3, background: bool = False, **parts: Stateful
) -> Saving:
    """Write the state of all `parts` as the next generation in the folder `path`.

    Python's, NumPy's and torch's random generators are saved with them. All is on the disk when
    this returns. With `background=True` only the copy is taken, and a thread writes it: the
    answer's `wait` says when it is there. A later `save` to the same folder waits for it, and
    raises what went wrong. On several ranks all call it, and rank 0 writes.

    Args:
        path: a folder, made if it is not there.
        keep: how many generations stay.
        background: whether to return as soon as the state is copied.
        parts: by name, whatever has `state_dict` and `load_state_dict`.

    >>> import tempfile
    >>> model = torch.nn.Linear(2, 1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     saving = save(folder, model=model)
    ...     found = resume(folder, model=model)
    >>> saving.generation, found
    (1, 1)
    """
    folder, keep = Path(path), arguments.whole("keep", keep, least=1)
    _check_parts(parts)
    _last(folder).wait()
    tensors = _collect({**parts, RANDOM: Generators()}, copy=background)
    generation = max(_generations(folder), default=0) + 1
    saving = Saving(folder, generation, keep, tensors)
    if dist.is_available() and dist.is_initialized() and dist.get_rank() > 0:
        return saving
    folder.mkdir(parents=True, exist_ok=True)
    if background:
        _running[folder.resolve()] = saving
        saving.start()
    else:
        saving.run()
        saving.wait()
    return saving


class Saving:
    """A generation that is being written, or has been."""

    def __init__(
        self, folder: Path, generation: int, keep: int, tensors: Mapping[str, Tensor]
    ) -> None:
        self.folder, self.generation = folder, generation
        self._keep, self._tensors = keep, tensors
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    @property
    def file(self) -> Path:
        """Where it is."""
        return _file(self.folder, self.generation)

    def start(self) -> None:
        """Write in a thread of its own; the process does not end before it has."""
        self._thread = threading.Thread(target=self.run, name=f"saving {self.file}")
        self._thread.start()

    def run(self) -> None:
        """Write, then let older generations go."""
        temporary = self.folder / f"{self.generation:08d}{UNFINISHED}"
        try:
            _sweep(self.folder)
            _write(temporary, self._tensors)
            temporary.replace(self.file)
            _flush_folder(self.folder)
            for old in sorted(_generations(self.folder))[: -self._keep]:
                _file(self.folder, old).unlink(missing_ok=True)
        except BaseException as error:
            self._error = error
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
        self._tensors = {}

    def wait(self) -> None:
        """Return when it is on the disk; raise what went wrong, once."""
        if self._thread is not None:
            self._thread.join()
        error, self._error = self._error, None
        if error is not None:
            raise error


_running: dict[Path, Saving] = {}
"""What was last saved in the background, by folder."""


def _last(folder: Path) -> Saving:
    return _running.pop(folder.resolve(), Saving(folder, 0, 1, {}))


def _check_parts(parts: Mapping[str, Any]) -> None:
    if not parts:
        raise TypeError("nothing to save: pass what has a state by name, as in learner=learner")
    if RANDOM in parts:
        raise TypeError(f"{RANDOM} is the name under which the random generators are saved")
    for name, value in parts.items():
        if not (hasattr(value, "state_dict") and hasattr(value, "load_state_dict")):
            raise TypeError(
                f"{name} must have state_dict and load_state_dict, got {type(value).__name__}"
            )


def _collect(parts: Mapping[str, Stateful], copy: bool) -> dict[str, Tensor]:
    """The state of all parts as tensors on the CPU, by name."""
    found: dict[str, Tensor] = {}
    for name, value in parts.items():
        for key, tensor in pack(value.state_dict()).items():
            if tensor.dtype not in DTYPES or tensor.layout != torch.strided:
                raise TypeError(
                    f"{name}.{key} is a {tensor.layout} tensor of {tensor.dtype}, which a "
                    f"checkpoint cannot hold; it holds dense ones of {', '.join(map(str, DTYPES))}"
                )
            there = tensor.to("cpu", copy=copy).contiguous()
            found[f"{name}.{key}"] = there
    return found


def _write(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a file and have it on the disk."""
    header = _header(tensors)
    digest = hashlib.sha256(header)
    for tensor in tensors.values():
        digest.update(_bytes(tensor))
    signed = header.replace(UNKNOWN.encode(), digest.hexdigest().encode(), 1)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        _write_all(file, signed)
        for tensor in tensors.values():
            _write_all(file, _bytes(tensor))
        os.fsync(file)
    finally:
        os.close(file)


def _header(tensors: Mapping[str, Tensor]) -> bytes:
    """The safetensors header, with a place for the digest."""
    manifest = {
        "digest": UNKNOWN,
        "format": FORMAT,
        "taskfree": version("taskfree"),
        "torch": torch.__version__,
    }
    content: dict[str, Any] = {"__metadata__": {"manifest": json.dumps(manifest)}}
    start = 0
    for name, tensor in tensors.items():
        end = start + tensor.numel() * tensor.element_size()
        content[name] = {
            "dtype": DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
        start = end
    text = json.dumps(content, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _bytes(tensor: Tensor) -> memoryview:
    """The memory of a contiguous tensor on the CPU."""
    size = tensor.numel() * tensor.element_size()
    if not size:
        return memoryview(b"")
    return memoryview((ctypes.c_char * size).from_address(tensor.data_ptr()))


def _write_all(descriptor: int, content: bytes | memoryview) -> None:
    """Write all of it: a system call may take only a part."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _flush_folder(folder: Path) -> None:
    """Have the names in a folder on the disk too."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _file(folder: Path, generation: int) -> Path:
    return folder / f"{generation:08d}{ENDING}"


def _generations(folder: Path) -> Iterator[int]:
    """The numbers of the generations in a folder."""
    for entry in folder.iterdir() if folder.is_dir() else ():
        if re.fullmatch(rf"\d{{8,}}{re.escape(ENDING)}", entry.name):
            yield int(entry.name.removesuffix(ENDING))


def _sweep(folder: Path) -> None:
    """Remove what an earlier process was writing when it was stopped."""
    for entry in folder.glob(f"*{UNFINISHED}"):
        entry.unlink(missing_ok=True)


# Loading


def resume(path: str | os.PathLike[str], **parts: Stateful) -> int:
    """Continue all `parts` from the newest generation in the folder `path`; its number.

    At the first start, when there is none, nothing is done and the answer is 0. If the newest is
    damaged, the one before is taken, with a warning. If none can be used, or the state does not fit
    the parts, a CheckpointError says why and the parts are as they were.

    >>> resume("a folder that is not there", model=torch.nn.Linear(2, 1))
    0
    """
    _check_parts(parts)
    found = _newest(Path(path))
    if found is None:
        return 0
    generation, tensors = found
    _load(_file(Path(path), generation), tensors, {RANDOM: Generators(), **parts})
    return generation


def peek(path: str | os.PathLike[str], *names: str) -> dict[str, Any]:
    """The states of some parts of the newest generation, to make fitting ones of; empty if none.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = save(folder, model=torch.nn.Linear(2, 1, bias=False))
    ...     peek(folder, "model")["model"]["weight"].shape
    torch.Size([1, 2])
    """
    found = _newest(Path(path))
    if found is None:
        return {}
    generation, tensors = found
    file, there = _file(Path(path), generation), {name.partition(".")[0] for name in tensors}
    if missing := [name for name in names if name not in there]:
        raise CheckpointError(f"{file.name} holds no {', '.join(missing)}")
    return {name: _unpacked(file, name, part(name, tensors)) for name in names}


def _newest(folder: Path) -> tuple[int, dict[str, Tensor]] | None:
    """The newest generation that is whole, with a warning for each newer one that is not."""
    _last(folder).wait()
    reasons: list[str] = []
    for generation in sorted(_generations(folder), reverse=True):
        file = _file(folder, generation)
        try:
            tensors = _read(file)
        except CheckpointError as error:
            reasons.append(str(error))
            continue
        for reason in reasons:
            warnings.warn(f"{reason}; going on from {file.name}", stacklevel=3)
        return generation, tensors
    if reasons:
        raise CheckpointError(f"no generation in {folder} can be used: {'; '.join(reasons)}")
    return None


def _read(file: Path) -> dict[str, Tensor]:
    """The tensors of a file, if it is whole and of this format."""
    try:
        _check_file(file)
        return load_file(file)
    except (OSError, SafetensorError, ValueError, RecursionError, OverflowError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{file.name} cannot be read: {error}") from error


def _check_file(file: Path) -> None:
    """Raise a CheckpointError if a file is not what was written."""
    size = file.stat().st_size
    with open(file, "rb") as content:
        start = content.read(8)
        length = int.from_bytes(start, "little")
        if len(start) < 8 or length > min(size - 8, LARGEST_HEADER):
            raise CheckpointError(f"{file.name} is cut off, or not a safetensors file")
        header = content.read(length)
        manifest = _manifest(file, header)
        claimed = manifest["digest"].encode()
        digest = hashlib.sha256(start + header.replace(claimed, UNKNOWN.encode(), 1))
        while block := content.read(2**20):
            digest.update(block)
    if digest.hexdigest().encode() != claimed:
        raise CheckpointError(f"{file.name} is damaged: its content does not fit its SHA-256")


def _manifest(file: Path, header: bytes) -> dict[str, Any]:
    """The manifest in a header."""
    try:
        manifest = json.loads(json.loads(header.decode())["__metadata__"]["manifest"])
        form, digest = manifest["format"], manifest["digest"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{file.name} has no manifest: it is not a checkpoint") from error
    if type(form) is not int or form < 1 or not isinstance(digest, str):
        raise CheckpointError(f"{file.name} has a manifest that makes no sense")
    if form > FORMAT:
        raise CheckpointError(
            f"{file.name} has format {form}, and this version of taskfree reads up to {FORMAT}; "
            "use a newer one"
        )
    if not re.fullmatch("[0-9a-f]{64}", digest):
        raise CheckpointError(f"{file.name} has no SHA-256")
    return {"format": form, "digest": digest}


def _load(file: Path, tensors: Mapping[str, Tensor], parts: Mapping[str, Stateful]) -> None:
    """Load every part, or none."""
    there = {name.partition(".")[0] for name in tensors}
    if there != parts.keys():
        raise CheckpointError(
            f"{file.name} holds {', '.join(sorted(there)) or 'nothing'}, and what is to be loaded "
            f"is {', '.join(sorted(parts))}; pass the same parts by the same names"
        )
    states = {name: _unpacked(file, name, part(name, tensors)) for name in parts}
    before = {name: _copied(value.state_dict()) for name, value in parts.items()}
    started: list[str] = []
    try:
        for name, value in parts.items():
            started.append(name)
            if isinstance(value, nn.Module):
                _check_dtypes(states[name], before[name])
            value.load_state_dict(states[name])
    except BaseException as error:
        for name in started:
            parts[name].load_state_dict(before[name])
        if isinstance(error, Exception):
            raise CheckpointError(f"{file.name} does not fit {started[-1]}: {error}") from error
        raise


def _unpacked(file: Path, name: str, flat: Mapping[str, Tensor]) -> Any:
    """The state of a part, if it is made of all of these tensors and no others."""
    try:
        state = unpack(flat)
        complete = pack(state).keys() == flat.keys()
    except Exception as error:
        raise CheckpointError(f"{file.name} has a layout of {name} that makes no sense") from error
    if not complete:
        raise CheckpointError(f"{file.name} has tensors that its layout of {name} does not name")
    return state


def _check_dtypes(there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Raise if a module's tensors are of another dtype: torch would convert them."""
    for name in there.keys() & here.keys():
        kinds = [getattr(state[name], "dtype", None) for state in (there, here)]
        if kinds[0] != kinds[1]:
            raise ValueError(f"{name} is {kinds[0]} there and {kinds[1]} here")


def _copied(state: Any) -> Any:
    """A state whose tensors are copies."""
    return unpack({name: tensor.clone() for name, tensor in pack(state).items()})


class Generators:
    """The random generators that everyone shares: Python's, torch's and, if imported, NumPy's."""

    def state_dict(self) -> dict[str, Any]:
        """Their states."""
        version, numbers, gauss = random.getstate()
        state: dict[str, Any] = {
            "python": (version, torch.tensor(numbers), gauss),
            "torch": torch.get_rng_state(),
        }
        if "numpy" in sys.modules:
            kind, key, *rest = sys.modules["numpy"].random.get_state()
            state["numpy"] = (kind, torch.tensor(key.tolist()), *rest)
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from saved states."""
        version, numbers, gauss = state["python"]
        random.setstate((version, tuple(numbers.tolist()), gauss))
        torch.set_rng_state(state["torch"])
        if "numpy" in state:
            kind, key, *rest = state["numpy"]
            importlib.import_module("numpy").random.set_state((kind, key.tolist(), *rest))
