"""The site builds without a warning and is complete."""

import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


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


PUBLIC = (
    "taskfree", "taskfree.when", "taskfree.when.drift", "taskfree.which", "taskfree.how",
    "taskfree.how.importance", "taskfree.checkpoint", "taskfree.checks", "taskfree.metrics",
    "taskfree.grow", "taskfree.onpolicy", "taskfree.robot", "taskfree.observe.events",
    "taskfree.observe.log", "taskfree.observe.tensorboard", "taskfree.observe.advice",
    "taskfree.adapters.hooks", "taskfree.adapters.river", "taskfree.adapters.sklearn",
    "taskfree.adapters.lightning",
)  # fmt: skip
"""The public modules; the adapter for Avalanche is imported only where that is installed."""


def public():
    """Every public class and function, by the module that defines it."""
    found = {}
    for name in PUBLIC:
        module = importlib.import_module(name)
        for one in module.__all__:
            value = getattr(module, one)
            if inspect.isclass(value) or inspect.isfunction(value):
                found[f"{value.__module__}.{one}"] = value
    return found


PROTOCOLS = {"taskfree.observe.events.Observed"}
"""Not for users: what a learner shows to those who observe it."""


@pytest.mark.parametrize("name", sorted(public().keys() - PROTOCOLS))
def test_all_that_is_public_has_a_page_with_a_running_example(name, site):
    short = name.rpartition(".")[2]
    assert f'href="{short}/"' in (site / "api/index.html").read_text(), "add it to docs/api.md"
    assert f'id="{name}"' in (site / "api" / short / "index.html").read_text()
    text = " ".join(public()[name].__doc__.split())
    assert ">>> " in text or "example is in `" in text.lower(), "it needs a running example"


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
