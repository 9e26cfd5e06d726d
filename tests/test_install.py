"""The wheel and the source distribution: what they hold, and that they install, bare and with extras."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PIP = ["-m", "pip", "--quiet", "--disable-pip-version-check"]
CONSTRAINTS = ["--constraint", ROOT / "constraints.txt"]
EXTRAS = {
    "learn": "import taskfree.cli.learn, taskfree.cli.report, taskfree.cli.watch",
    "onnx": "import taskfree.cli.export, onnxscript",
    "robot": "import taskfree.robot",
    "tensorboard": "import torch.utils.tensorboard",
    "river": "import taskfree.adapters.river",
    "sklearn": "import taskfree.adapters.sklearn",
    "lightning": "import taskfree.adapters.lightning",
    "paper": "import taskfree.paper.corridors, taskfree.paper.arena.experiment, "
    "taskfree.paper.tv.experiment, taskfree.paper.tv.tracks, taskfree.paper.triggers.experiment, "
    "taskfree.paper.synthetic.experiment, taskfree.paper.data",
}
"""By extra: what can be imported with it."""
NOT_HERE = {"avalanche", "dev", "docs"}
"""Avalanche pins an older torch than the constraints; dev, with docs, is what runs the tests."""


def python(environment, *arguments):
    """Run an environment's Python, isolated from this project's source."""
    command = [environment / "bin" / "python", "-P", *arguments]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}  # two threads on a busy machine are far slower
    return subprocess.run(command, capture_output=True, text=True, cwd=environment, env=env)


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """The wheel and the source distribution, as `python -m build` makes them."""
    out = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel], [source] = out.glob("*.whl"), out.glob("*.tar.gz")
    return wheel, source


@pytest.fixture(scope="module")
def bare(dist, tmp_path_factory):
    """An environment with the wheel and what it requires."""
    environment = tmp_path_factory.mktemp("environments") / "bare"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    done = python(environment, *PIP, "install", "--no-compile", *CONSTRAINTS, dist[0])
    assert done.returncode == 0, done.stderr
    return environment


def test_the_wheel_and_the_source_hold_the_package(dist):
    wheel, source = dist
    here = {
        file.relative_to(ROOT / "src").as_posix()
        for file in (ROOT / "src").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    there = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info" not in name}
    assert there == here
    assert "taskfree/py.typed" in there
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in here} <= names
    assert {"README.md", "LICENSE", "pyproject.toml", "CHANGELOG.md"} <= names
    assert not any(name.startswith(("results/", "tests/golden/", ".venv")) for name in names)


def test_every_extra_is_tried():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["optional-dependencies"]) == set(EXTRAS) | NOT_HERE


def test_the_first_page_is_enough(bare):
    """Its command installs everything its code needs, and the code runs."""
    page = (ROOT / "docs/index.md").read_text()
    [install] = re.findall(r"```sh\n(.*?)\n```", page)
    assert install == "pip install ."  # the fixture installs the same as a wheel
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    done = python(bare, "-c", code)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"accuracy on the first quadrant, taskfree: \d+%", lines[-1])
    assert any(line.startswith("step ") for line in lines), "nothing was consolidated"


def test_without_extras_only_torch_and_safetensors_are_needed(bare):
    done = python(bare, "-c", "from taskfree import *; import taskfree.checks, taskfree.grow")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_command_of_the_error_installs_an_extra(extra, bare, tmp_path):
    """`pip install 'taskfree[EXTRA]'`, in an environment that has the bare wheel."""
    environment = tmp_path / extra
    shutil.copytree(bare, environment, symlinks=True, copy_function=_link)
    before = python(environment, "-c", EXTRAS[extra])
    assert before.returncode != 0, "the extra is not needed"
    done = python(environment, *PIP, "install", "--no-compile", *CONSTRAINTS, f"taskfree[{extra}]")
    assert done.returncode == 0, done.stderr
    after = python(environment, "-W", "error::ImportWarning", "-c", EXTRAS[extra])
    assert after.returncode == 0, after.stderr
    if extra == "learn":
        _learn_a_table(environment)


def _link(source, target):
    Path(target).hardlink_to(source)


def _learn_a_table(environment):
    (environment / "t.csv").write_text("a,y\n" + "1,x\n2,z\n" * 20)
    done = python(
        environment, "-m", "taskfree", "learn", "t.csv", "--target", "y", "--state", "state"
    )
    assert done.returncode == 0, done.stderr
    assert "saved in state" in done.stderr
