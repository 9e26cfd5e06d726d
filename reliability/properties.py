"""Run tests with many more examples than CI tries, or with the library broken on purpose."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sabotage import SABOTAGE
from subject import isolated

TESTS = Path(__file__).parents[1] / "tests"
PROPERTIES = ("when", "which", "checkpoint", "_core", "test_on_bad.py", "test_stateful.py")
"""Tests of properties, by their path in tests/."""


def outcome(
    paths: Sequence[str], broken: str = "", factor: int = 1, workers: int = 0
) -> dict[str, int]:
    """Run tests in a fork: how many passed and failed, and how many examples were tried.

    Args:
        paths: of files or folders in tests/.
        broken: what to break, a name in `SABOTAGE`. Then the first failure is enough.
        factor: multiplies the number of examples.
        workers: processes of pytest; what is broken is broken in this process only.
    """
    import pytest  # noqa: F401 - here, so that forks need not

    plugins = ["no:cacheprovider", "_hypothesis_pytestplugin", *(["xdist"] if workers else [])]
    options = ["-q", "--hypothesis-show-statistics", *(f"-p{name}" for name in plugins)]
    options += [*(["-x"] if broken else []), *([f"-n{workers}"] if workers else [])]
    arguments = [*options, *(str(TESTS / path) for path in paths)]
    with tempfile.TemporaryFile("w+") as output:
        status = isolated(lambda: _run(arguments, broken, factor, output.fileno()))
        output.seek(0)
        text = output.read()
    if status not in (0, 1):
        raise RuntimeError(text[-3000:])
    passed, failed = (re.search(rf"(\d+) {word}", text) for word in ("passed", "failed"))
    return {
        "passed": int(passed[1]) if passed else 0,
        "failed": int(failed[1]) if failed else 0,
        "examples": sum(map(int, re.findall(r"(\d+) passing, \d+ failing", text))),
    }


def _run(arguments: list[str], broken: str, factor: int, output: int) -> int:
    import pytest

    os.dup2(output, sys.stdout.fileno())
    os.dup2(output, sys.stderr.fileno())
    os.chdir(TESTS.parent)
    os.environ |= {"TASKFREE_EXAMPLES": str(factor), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    if broken:
        SABOTAGE[broken]()
    status = int(pytest.main(arguments, plugins=[_OneFailure()] if broken else []))
    sys.stdout.flush()
    return status


class _OneFailure:
    """A plugin of pytest: one failing example is enough, and no later run should try it again."""

    def pytest_configure(self) -> None:
        from hypothesis import Phase, settings

        settings.register_profile(
            "broken", parent=settings.default, phases=(Phase.generate,), database=None
        )
        settings.load_profile("broken")


def run(paths: Sequence[str], factor: int, workers: int = 0) -> dict[str, int]:
    """Try every property of these tests `factor` times as often as CI does."""
    found = outcome(paths, factor=factor, workers=workers)
    return {"failed": found["failed"], "examples": found["examples"]}
