"""README and docs: their code runs, their commands parse, their numbers are those of the results."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from taskfree import cli

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import write_tables  # noqa: E402 - its folder is not a package

README = ROOT / "README.md"
PAGES = (README, *sorted((ROOT / "docs").glob("*.md")))


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # Lightning, about torch
@pytest.mark.filterwarnings("ignore:.*does not have many workers")  # Lightning's advice
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        exec(compile(block, page.name, "exec"), names)


COMMANDS = sorted(
    {
        found
        for page in PAGES
        for found in re.findall(
            r"^(?: {4})?taskfree ([^#\n]+?) *(?:#.*)?$", page.read_text(), re.MULTILINE
        )
    }
)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_parse(command, monkeypatch):
    """Other tests run them; this one checks that they are spelled correctly."""
    parsed = []
    for one in (*cli.COMMANDS.values(), *cli.EXPERIMENTS.values()):
        monkeypatch.setattr(f"{one.module}.run", parsed.append)
    assert cli.main(shlex.split(command)) == 0
    assert len(parsed) == 1


def test_the_commands_of_the_results_parse(monkeypatch):
    """A result names the command that made it, which must still exist."""
    parsed = []
    for one in cli.EXPERIMENTS.values():
        monkeypatch.setattr(f"{one.module}.run", parsed.append)
    for file in sorted((ROOT / "results").glob("*/results.json")):
        command = re.search(r'"command": "taskfree ([^"]+)"', file.read_text())[1]
        assert cli.main(shlex.split(command)) == 0, file
    assert len(parsed) >= 6


@pytest.mark.parametrize("name", write_tables.TABLES)
def test_the_numbers_are_those_of_the_results(name):
    page, make = write_tables.TABLES[name]
    found = write_tables.block(name).search(page.read_text())
    assert found, f"{page.name} has no place for the table {name!r}"
    assert found[2].strip() == make().strip(), "run `make tables`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_images_and_links_exist(page):
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target.partition("#")[0]).exists(), target


def test_the_make_commands_exist():
    makefile = (ROOT / "Makefile").read_text()
    for command in re.findall(r"^make (\w+)", README.read_text(), re.MULTILINE):
        assert re.search(rf"^{command}:", makefile, re.MULTILINE)


def test_the_readme_is_short_and_can_be_found():
    text = README.read_text()
    assert len(text.splitlines()) <= 100
    for words in (
        "continual learning", "catastrophic forgetting", "experience replay", "regularization",
        "concept drift", "task labels", "GPU",
    ):  # fmt: skip
        assert words.lower() in " ".join(text.split()).lower(), words


def test_the_readme_counts_the_claims():
    """Those that are not shown, of all."""
    _, make = write_tables.TABLES["claims"]
    claims = make().splitlines()[2:]
    within = sum("within the spread" in line for line in claims)
    text = " ".join(README.read_text().split())
    assert f"{within} of the [paper's {len(claims)} claims]" in text


OLD_WORDS = (
    r"so many-th", r"\bpictures?\b", r"weighted accuracy", r"of one's own", r"\bif not said\b",
    r"\b(?:steps?|rows?|frames?|collisions|seconds|losses) a (?:step|second|minute|time step|sample)\b",
)  # fmt: skip


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_words_are_the_fields_own(page):
    for words in OLD_WORDS:
        assert not re.search(words, page.read_text()), words
