"""Publishing an experiment: results, figures, report, and the command that repeats it."""

import json
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import tyro
from matplotlib.figure import Figure
from PIL import Image

from taskfree.paper import cache, publish
from taskfree.paper.synthetic.experiment import SyntheticConfig


@dataclass(frozen=True)
class Inner:
    """Nested options."""

    out: str = "there"
    weights: Path = Path("w")
    seed: int = 0
    video: bool = False


@dataclass(frozen=True)
class Outer:
    """Options of an
    experiment."""

    out: Path = Path("here")
    seeds: int = 3
    names: tuple[str, ...] = ("A",)
    weights: Path = Path("weights.pth")
    flights: Inner = Inner()
    show: bool = False
    crop: bool = True
    workers: int | None = None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"out": Path("elsewhere"), "workers": 2}, ""),
        ({"names": ("A", "B"), "flights": Inner("nowhere", seed=1, video=True)}, " --names A B --flights.seed 1"),
        ({"names": ("my faces",), "show": True, "crop": False}, " --names 'my faces' --show --no-crop"),
        ({"weights": Path("a b")}, " --weights 'a b'"),
    ],
)  # fmt: skip
def test_the_command_has_the_options_that_differ_from_the_defaults(changes, words):
    config = replace(Outer(), **changes)
    command = publish.command("x", config)
    assert command == f"taskfree reproduce x{words}"
    parsed = tyro.cli(Outer, args=shlex.split(command)[3:])
    assert publish.settings(parsed) == publish.settings(config)


def test_the_command_of_an_experiment():
    config = SyntheticConfig(seeds=3, strengths=(1.0, 2.0), workers=2)
    expected = "taskfree reproduce synthetic --seeds 3 --strengths 1.0 2.0"
    assert publish.command("synthetic", config) == expected


def test_settings_are_what_results_depend_on():
    found = publish.settings(Outer(), without=("crop",))
    assert json.loads(json.dumps(found)) == {
        "seeds": 3, "names": ["A"], "weights": "weights.pth", "show": False,
        "flights": {"weights": "w", "seed": 0},
    }  # fmt: skip


def test_results_are_json_with_one_line_per_run(tmp_path):
    content = {"command": "x", "runs": [{"seed": 0}, {"seed": 1}], "empty": [], "list": [1, 2]}
    publish.write_results(tmp_path / "results.json", content)
    text = (tmp_path / "results.json").read_text()
    assert json.loads(text) == content
    assert [line.strip(" ,") for line in text.splitlines() if "seed" in line] == [
        '{"seed": 0}',
        '{"seed": 1}',
    ]


@pytest.fixture
def published(tmp_path, capsys):
    figure = Figure()
    figure.subplots().plot([1, 2])
    config = replace(Outer(), out=tmp_path / "out", seeds=7)
    results = publish.publish(
        "x",
        config,
        title="An experiment",
        found={"aims": {"gap": 0.5}, "runs": [{"loss": 0.25}]},
        tables={"Accuracy (%)": [["", "all"], ["online", "91.5 ± 2.0"]]},
        figures={"curve.png": (figure, "A curve & more.")},
        details=("aims",),
    )
    return results, config.out, capsys.readouterr().out


def test_everything_is_written(published):
    results, out, _ = published
    assert {file.name for file in out.iterdir()} == {"results.json", "curve.png", "report.html"}
    assert json.loads((out / "results.json").read_text()) == json.loads(json.dumps(results))
    assert list(results) == ["command", "config", "versions", "aims", "runs"]
    assert results["command"] == "taskfree reproduce x --seeds 7"
    assert results["config"]["seeds"] == 7
    assert results["versions"] == cache.versions()
    with Image.open(out / "curve.png") as image:
        assert min(image.size) > 100


def test_the_report_has_tables_figures_and_details(published):
    _, out, _ = published
    page = (out / "report.html").read_text()
    for text in ("An experiment", "Options of an experiment.", "Accuracy (%)", "91.5 ± 2.0",
                 "A curve &amp; more.", "alt='curve.png'", "taskfree reproduce x --seeds 7"):  # fmt: skip
        assert text in page, text
    assert "gap" in page
    assert "loss" not in page, "the runs are not among the details"


def test_the_tables_are_printed(published):
    *_, printed = published
    assert "Accuracy (%)" in printed
    assert "91.5\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}2.0" in printed
    assert "report.html" in printed.replace("\n", "")
