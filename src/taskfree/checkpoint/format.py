"""The file of a generation: safetensors with a manifest and a SHA-256."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from taskfree._core.errors import CheckpointError

FORMAT = 1
"""The version of the format. A file of a newer one is refused."""
LARGEST_HEADER = 100_000_000
"""Bytes: the limit of safetensors itself."""
UNKNOWN = "0" * 64
"""Stands in place of the digest while it is computed."""
DTYPES = {
    torch.bool: "BOOL", torch.uint8: "U8", torch.int8: "I8", torch.int16: "I16",
    torch.int32: "I32", torch.int64: "I64", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.float32: "F32", torch.float64: "F64",
}  # fmt: skip


def write(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write contiguous tensors on the CPU to a file."""
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
    finally:
        os.close(file)


def _header(tensors: Mapping[str, Tensor]) -> bytes:
    """The safetensors header, with a placeholder for the digest."""
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
    """Write everything: one system call may write only a part."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def read(file: Path) -> dict[str, Tensor]:
    """The tensors of a file, if it is whole and of this format."""
    try:
        check(file)
        return load_file(file)
    except (OSError, SafetensorError, ValueError, RecursionError, OverflowError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{file.name} cannot be read: {error}") from error


def check(file: Path) -> None:
    """Raise a CheckpointError if a file is not what was written."""
    size = file.stat().st_size
    with file.open("rb") as content:
        start = content.read(8)
        length = int.from_bytes(start, "little")
        if len(start) < 8 or length > min(size - 8, LARGEST_HEADER):
            raise CheckpointError(f"{file.name} is truncated, or not a safetensors file")
        header = content.read(length)
        claimed = _claimed_digest(file, header).encode()
        digest = hashlib.sha256(start + header.replace(claimed, UNKNOWN.encode(), 1))
        while block := content.read(2**20):
            digest.update(block)
    if digest.hexdigest().encode() != claimed:
        raise CheckpointError(f"{file.name} is damaged: its content does not match its SHA-256")


def _claimed_digest(file: Path, header: bytes) -> str:
    """The digest in the manifest of a header of this format."""
    try:
        manifest = json.loads(json.loads(header.decode())["__metadata__"]["manifest"])
        form, digest = manifest["format"], manifest["digest"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{file.name} has no manifest: it is not a checkpoint") from error
    if type(form) is not int or form < 1 or not isinstance(digest, str):
        raise CheckpointError(f"{file.name} has an invalid manifest")
    if form > FORMAT:
        raise CheckpointError(
            f"{file.name} has format {form}, and this version of taskfree reads up to {FORMAT}; "
            "use a newer one"
        )
    if not re.fullmatch("[0-9a-f]{64}", digest):
        raise CheckpointError(f"{file.name} has no SHA-256")
    return digest
