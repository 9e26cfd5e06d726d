"""Saving and resuming: the generations in a folder."""

from __future__ import annotations

import os
import re
import threading
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn

from taskfree._core import validation
from taskfree._core.errors import CheckpointError
from taskfree._core.files import UNFINISHED, atomic_write
from taskfree._core.random_state import GlobalGenerators
from taskfree._core.serialization import pack, take_prefix, unpack
from taskfree.checkpoint import format as file_format

SUFFIX = ".safetensors"
RANDOM = "random"
"""The name under which the random generators are saved."""


class Stateful(Protocol):
    """What can be saved: learners, optimizers, schedulers, metrics, streams, modules."""

    def state_dict(self) -> Any:
        """Tensors, numbers, strings and None, in dicts, lists and tuples."""

    def load_state_dict(self, state: Any) -> Any:
        """Continue from a saved state."""


def save(
    path: str | os.PathLike[str], *, keep: int = 3, background: bool = False, **parts: Stateful
) -> Saving:
    """Write the state of all `parts` as the next generation in the folder `path`.

    The random generators of Python, NumPy and torch are saved too. When this returns, everything
    is on disk. With `background=True` only a copy is taken and a thread writes it; `Saving.wait`
    returns when it is on disk. A later `save` to the same folder waits for it and raises what went
    wrong. On several ranks all call it, and rank 0 writes.

    Args:
        path: a folder, created if it does not exist.
        keep: how many generations to keep.
        background: return as soon as the state is copied.
        parts: by name, anything with `state_dict` and `load_state_dict`.

    >>> import tempfile
    >>> model = torch.nn.Linear(2, 1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     saving = save(folder, model=model)
    ...     found = resume(folder, model=model)
    >>> saving.generation, found
    (1, 1)
    """
    folder, keep = Path(path), validation.integer("keep", keep, least=1)
    _check_parts(parts)
    _last(folder).wait()
    tensors = _collect({**parts, RANDOM: GlobalGenerators()}, copy=background)
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
    """A generation that is being written, or has been.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     saving = save(folder, background=True, model=torch.nn.Linear(2, 1))
    ...     saving.wait()
    ...     saving.file.name
    '00000001.safetensors'
    """

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
        """Write in a thread; the process does not exit before it is done."""
        self._thread = threading.Thread(target=self.run, name=f"saving {self.file}")
        self._thread.start()

    def run(self) -> None:
        """Write, then delete older generations."""
        try:
            _sweep(self.folder)
            with atomic_write(self.file) as unfinished:
                file_format.write(unfinished, self._tensors)
            for old in sorted(_generations(self.folder))[: -self._keep]:
                _file(self.folder, old).unlink(missing_ok=True)
        except BaseException as error:
            self._error = error
        self._tensors = {}

    def wait(self) -> None:
        """Return when it is on disk; raise what went wrong, once."""
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
    dtypes = file_format.DTYPES
    found: dict[str, Tensor] = {}
    for name, value in parts.items():
        for key, tensor in pack(value.state_dict()).items():
            if tensor.dtype not in dtypes or tensor.layout != torch.strided:
                raise TypeError(
                    f"{name}.{key} is a {tensor.layout} tensor of {tensor.dtype}, which a "
                    f"checkpoint cannot hold; it holds dense ones of {', '.join(map(str, dtypes))}"
                )
            found[f"{name}.{key}"] = tensor.to("cpu", copy=copy).contiguous()
    return found


def _file(folder: Path, generation: int) -> Path:
    return folder / f"{generation:08d}{SUFFIX}"


def _generations(folder: Path) -> Iterator[int]:
    """The numbers of the generations in a folder."""
    for entry in folder.iterdir() if folder.is_dir() else ():
        if re.fullmatch(rf"\d{{8,}}{re.escape(SUFFIX)}", entry.name):
            yield int(entry.name.removesuffix(SUFFIX))


def _sweep(folder: Path) -> None:
    """Remove what an earlier process was writing when it was killed."""
    for entry in folder.iterdir():
        if re.fullmatch(rf"\d{{8,}}{re.escape(UNFINISHED)}({re.escape(SUFFIX)})?", entry.name):
            entry.unlink(missing_ok=True)


def resume(path: str | os.PathLike[str], **parts: Stateful) -> int:
    """Load the newest generation in the folder `path` into all `parts`; return its number.

    At the first start, when there is none, nothing happens and the answer is 0. If the newest is
    damaged, the one before is used, with a warning. If none can be used, or the state does not fit
    the parts, a CheckpointError says why and the parts are unchanged.

    >>> resume("a folder that does not exist", model=torch.nn.Linear(2, 1))
    0
    """
    _check_parts(parts)
    found = _newest(Path(path))
    if found is None:
        return 0
    generation, tensors = found
    _load(_file(Path(path), generation), tensors, {RANDOM: GlobalGenerators(), **parts})
    return generation


def peek(path: str | os.PathLike[str], *names: str) -> dict[str, Any]:
    """The states of some parts of the newest generation, without loading them; empty if none.

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
    return {name: _unpacked(file, name, take_prefix(name, tensors)) for name in names}


def _newest(folder: Path) -> tuple[int, dict[str, Tensor]] | None:
    """The newest generation that is whole, with a warning for each newer one that is not."""
    _last(folder).wait()
    reasons: list[str] = []
    for generation in sorted(_generations(folder), reverse=True):
        file = _file(folder, generation)
        try:
            tensors = file_format.read(file)
        except CheckpointError as error:
            reasons.append(str(error))
            continue
        for reason in reasons:
            warnings.warn(f"{reason}; continuing from {file.name}", stacklevel=3)
        return generation, tensors
    if reasons:
        raise CheckpointError(f"no generation in {folder} can be used: {'; '.join(reasons)}")
    return None


def _load(file: Path, tensors: Mapping[str, Tensor], parts: Mapping[str, Stateful]) -> None:
    """Load every part, or none."""
    there = {name.partition(".")[0] for name in tensors}
    if there != parts.keys():
        raise CheckpointError(
            f"{file.name} holds {', '.join(sorted(there)) or 'nothing'}, but the parts to load "
            f"are {', '.join(sorted(parts))}; pass the same parts by the same names"
        )
    states = {name: _unpacked(file, name, take_prefix(name, tensors)) for name in parts}
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
        raise CheckpointError(f"{file.name} has an invalid layout of {name}") from error
    if not complete:
        raise CheckpointError(f"{file.name} has tensors that its layout of {name} does not name")
    return state


def _check_dtypes(there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Raise if a module's tensors have other dtypes, which torch would convert silently."""
    for name in there.keys() & here.keys():
        kinds = [getattr(state[name], "dtype", None) for state in (there, here)]
        if kinds[0] != kinds[1]:
            raise ValueError(f"{name} is {kinds[0]} there and {kinds[1]} here")


def _copied(state: Any) -> Any:
    """A state whose tensors are copies."""
    return unpack({name: tensor.clone() for name, tensor in pack(state).items()})
