import subprocess
import sys
from pathlib import Path

import pytest

import taskfree
from taskfree import cli

COMMAND = Path(sys.executable).with_name("taskfree")


def taskfree_command(*words):
    root = Path(__file__).parents[1]
    return subprocess.run([COMMAND, *words], capture_output=True, text=True, cwd=root)


def test_version():
    done = taskfree_command("--version")
    assert (done.returncode, done.stdout) == (0, f"taskfree {taskfree.__version__}\n")


def test_help_teaches_with_an_example():
    done = taskfree_command("--help")
    assert done.returncode == 0
    assert "taskfree reproduce synthetic --seeds 3" in done.stdout


def test_every_option_is_explained():
    done = taskfree_command("reproduce", "synthetic", "--help")
    assert done.returncode == 0
    for words in ("--seeds", "--strength", "capacity of the hard buffer", "default: 20"):
        assert words in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["learn-to-fly"], "'learn-to-fly' is not a command; try taskfree --help"),
        (["reproduce", "moon"], "no experiment is called 'moon'; there is synthetic, triggers"),
        (["reproduce", "synthetic", "--seeds", "many"], "many"),
        (["reproduce", "synthetic", "--strength", "-1"], "strength must be finite and at least 0"),
        (
            ["reproduce", "synthetic", "--window", "0"],
            "window must be a whole number of at least 1",
        ),
        (["reproduce", "synthetic", "--out", "pyproject.toml"], "File exists"),
        (["reproduce", "synthetic", "--seeds", "0"], "seeds must be a whole number of at least 1"),
    ],
)
def test_a_wrong_word_gets_a_clear_answer(words, message):
    done = taskfree_command(*words)
    assert done.returncode == 2
    assert message in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_without_its_extra_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tyro", None)
    assert cli.main(["reproduce", "synthetic"]) == 2
    assert "pip install 'taskfree[cli,river]'" in capsys.readouterr().err


def test_reproduce_end_to_end(tmp_path):
    options = ["--seeds=1", "--sweep-seeds=0", "--samples=200", "--test-samples=50", "--mean=2"]
    done = taskfree_command("reproduce", "synthetic", "--out", str(tmp_path / "run"), *options)
    assert done.returncode == 0, done.stderr
    assert f"report: {tmp_path / 'run' / 'report.html'}" in done.stdout.replace("\n", "")
    assert "online continual" in done.stdout
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "results.json", "figure2.png", "figure3.png", "report.html",
    }  # fmt: skip
