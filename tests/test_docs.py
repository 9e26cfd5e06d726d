"""The site builds without a warning, and has what it promises."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import taskfree

ROOT = Path(__file__).parents[1]


def test_the_first_page_is_enough(tmp_path):
    """In a new environment, by the page's own commands and nothing else."""
    page = (ROOT / "docs/index.md").read_text()
    [install] = re.findall(r"```sh\n(.*?)\n```", page)
    assert install == "pip install -e ."
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "new"], check=True)
    python = tmp_path / "new" / "bin" / "python"
    pinned = ["--quiet", "--disable-pip-version-check", "-c", ROOT / "constraints.txt"]
    subprocess.run([python, "-m", "pip", "install", *pinned, "-e", ROOT], check=True)
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert re.fullmatch(r"and with taskfree \d+ %", said[-1])
    assert any(line.startswith("step ") for line in said), "nothing was consolidated"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},  # of the year 2027
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    return folder


def test_every_page_is_in_the_navigation(site):
    navigation = (ROOT / "mkdocs.yml").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert f" {page.name}\n" in navigation, page.name
        built = site / "index.html" if page.stem == "index" else site / page.stem / "index.html"
        assert built.exists()


def test_all_that_is_public_is_in_the_api(site):
    page = (site / "api" / "index.html").read_text()
    modules = {"checkpoint", "events", "how", "importance", "when", "which"}
    for name in set(taskfree.__all__) - modules:
        assert re.search(rf'id="taskfree\.(\w+\.)?{name}"', page), name


def test_figures_and_results_are_there(site):
    linked = [
        page.parent / target
        for page in site.rglob("index.html")
        for target in re.findall(r'(?:src|href)="([^":#?]+\.(?:png|json|py))"', page.read_text())
    ]
    assert len(linked) > 30
    assert not [file for file in linked if not file.exists()]


def test_nothing_is_fetched_from_elsewhere(site):
    for page in site.rglob("index.html"):
        loaded = re.findall(
            r'<(?:script|link|img)[^>]+(?:src|href)="(https?:[^"]+)"', page.read_text()
        )
        assert not [link for link in loaded if "canonical" not in link], page
