import json
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import taskfree
from taskfree import cli

ROOT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).with_name("taskfree")


def taskfree_command(*words):
    return subprocess.run([COMMAND, *words], capture_output=True, text=True, cwd=ROOT)


def test_version():
    done = taskfree_command("--version")
    assert (done.returncode, done.stdout) == (0, f"taskfree {taskfree.__version__}\n")


def test_help_names_every_command_and_shows_an_example(capsys):
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert "taskfree reproduce synthetic --seeds 3" in shown
    for command in cli.COMMANDS:
        assert f"taskfree {command}" in shown
    for experiment in cli.EXPERIMENTS:
        assert f"\n  {experiment} " in shown


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_help_and_version_do_not_import_torch(word):
    code = (
        "import sys; from taskfree.cli import main; status = main(sys.argv[1:]); "
        "print(status, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, word], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "0 False", done.stderr


def test_without_words_it_shows_its_usage_and_fails(capsys):
    assert cli.main([]) == 2
    assert "usage: taskfree learn" in capsys.readouterr().out


def test_every_option_is_explained(capsys):
    with pytest.raises(SystemExit) as left:
        cli.main(["reproduce", "synthetic", "--help"])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    for words in ("--seeds", "--strength", "capacity of the hard buffer", "default: 20"):
        assert words in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["learn-to-fly"], "'learn-to-fly' is not a command; try taskfree --help"),
        (["record", "arena"], "there is taskfree record corridors; try it with --help"),
        (["reproduce", "moon"], "no experiment is called 'moon'; there is synthetic, triggers"),
        (["reproduce", "synthetic", "--seeds", "many"], "many"),
        (["reproduce", "synthetic", "--strength", "-1"], "strength must be finite and at least 0"),
        (["reproduce", "synthetic", "--window", "0"], "window must be an integer of at least 1"),
        (["reproduce", "synthetic", "--out", "a file"], "File exists"),
        (["reproduce", "triggers", "--out", "a file"], "File exists"),
        (["reproduce", "synthetic", "--seeds", "0"], "seeds must be an integer of at least 1"),
    ],
)
def test_a_wrong_word_gets_a_clear_answer(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a file").touch()
    try:
        status = cli.main(words)
    except SystemExit as left:  # of the options' parser
        status = left.code
    assert status == 2
    shown = capsys.readouterr()
    assert message in shown.err + shown.out


def test_errors_reach_the_shell():
    done = taskfree_command("inspect", "nothing")
    assert done.returncode == 2
    assert done.stderr.startswith("taskfree: nothing holds nothing that was learned")


def test_an_interrupted_command_says_so(monkeypatch, capsys):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("taskfree.cli.inspect.run", interrupted)
    assert cli.main(["inspect", "nothing"]) == 130
    assert capsys.readouterr().err == "taskfree: interrupted\n"


NEEDS = {
    "learn": ("tyro", "rich", "psutil"),
    "predict": ("tyro",),
    "inspect": ("tyro", "rich"),
    "report": ("tyro", "rich", "matplotlib"),
    "watch": ("tyro",),
    "export": ("tyro",),
    "record corridors": ("tyro", "rich", "gymnasium", "mujoco"),
    "tracks": ("tyro", "rich", "av", "cv2", "supervision", "trackers"),
    "label": ("tyro", "cv2"),
    "data": ("tyro",),
    "synthetic": ("tyro", "rich", "matplotlib"),
    "triggers": ("tyro", "rich", "matplotlib", "river"),
    "methods": ("tyro", "rich", "matplotlib"),
    "tv": ("tyro", "rich", "matplotlib", "av", "cv2", "supervision", "trackers"),
    "corridors": ("tyro", "rich", "matplotlib", "gymnasium", "mujoco"),
    "corridors10": ("tyro", "mujoco"),
    "arena": ("tyro", "rich", "matplotlib", "gymnasium", "mujoco"),
}
"""By command or experiment: modules that it imports when it is started."""
EXTRAS = {name: one.extra for name, one in {**cli.COMMANDS, **cli.EXPERIMENTS}.items()}


def test_a_missing_module_and_its_extra_are_named():
    cases, expected = [], []
    for name, modules in NEEDS.items():
        words = ["reproduce", name] if name in cli.EXPERIMENTS else name.split()
        for module in modules:
            cases.append([words, module])
            expected.append(
                f"taskfree: taskfree {' '.join(words)} needs {module}, which is not installed: "
                f"pip install 'taskfree[{EXTRAS[name]}]'\n"
            )
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("blocked.py")],
        input=json.dumps(cases), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[2, errors] for errors in expected]


def distributions(extra):
    """What an extra installs, with the extras that it names in turn."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = set()
    for one in map(Requirement, project["optional-dependencies"][extra]):
        found |= set().union(*map(distributions, one.extras)) or {one.name.lower()}
    return found


def test_the_extra_of_a_command_installs_its_modules():
    assert NEEDS.keys() == EXTRAS.keys()
    known = packages_distributions()
    for name, modules in NEEDS.items():
        installed = distributions(EXTRAS[name])
        for module in modules:
            assert {one.lower() for one in known[module]} & installed, (name, module)


def test_a_module_that_is_missed_only_in_use_is_named_too(tmp_path, monkeypatch, capsys):
    from PIL import Image

    (tmp_path / "images/a").mkdir(parents=True)
    Image.new("RGB", (4, 4)).save(tmp_path / "images/a/1.png")
    monkeypatch.setitem(sys.modules, "PIL", None)
    words = ["learn", str(tmp_path / "images"), "--state", str(tmp_path / "state")]
    assert cli.main(words) == 2
    assert "taskfree learn needs PIL, which is not installed" in capsys.readouterr().err


def test_reproduce_end_to_end(tmp_path):
    options = ["--seeds=1", "--sweep-seeds=0", "--samples=200", "--test-samples=50", "--mean=2"]
    done = taskfree_command("reproduce", "synthetic", "--out", str(tmp_path / "run"), *options)
    assert done.returncode == 0, done.stderr
    assert f"report: {tmp_path / 'run' / 'report.html'}" in done.stdout.replace("\n", "")
    assert "online continual" in done.stdout
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "results.json", "figure2.png", "figure3.png", "report.html",
    }  # fmt: skip
