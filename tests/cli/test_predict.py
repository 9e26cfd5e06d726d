import csv
import json

import pytest

from points import learn, same, state_of, write
from taskfree.cli import main

ROWS = "colour,y,x\nred,-3,9.5\nred,-3,1\nred,-3\nblue,?,inf\n"


@pytest.fixture
def state(tmp_path, capsys):
    """The folder of a network that has learned."""
    learn(write(tmp_path / "a.csv"), "--target", "label", "--state", tmp_path / "state")
    capsys.readouterr()
    (tmp_path / "b.csv").write_text(ROWS)
    return tmp_path / "state"


def predict(state, *options):
    return main(["predict", str(state.parent / "b.csv"), "--state", str(state), *options])


def test_every_row_gets_an_answer_and_nothing_is_learned(state, capsys):
    before = state_of(state)
    assert predict(state) == 0
    answers = list(map(json.loads, capsys.readouterr().out.splitlines()))
    assert [answer["prediction"] for answer in answers] == ["high", "low", None, None]
    assert answers[0]["probability"] > 0.6
    assert answers[2] == {
        "line": 4, "prediction": None, "problem": "has 2 values and there are 3 columns",
    }  # fmt: skip
    assert answers[3]["problem"] == "x is infinite"
    assert same(state_of(state), before)


def test_answers_as_csv(state, tmp_path):
    out = tmp_path / "answers.csv"
    assert predict(state, "--out", str(out)) == 0
    with out.open() as file:
        answers = list(csv.DictReader(file))
    assert [answer["prediction"] for answer in answers] == ["high", "low", "", ""]
    assert list(answers[0]) == ["line", "prediction", "probability", "problem"]


def test_a_missing_column_is_named(state, capsys):
    (state.parent / "b.csv").write_text("colour,y\nred,-3\n")
    assert predict(state) == 2
    assert "has no column 'x'; it has colour, y" in capsys.readouterr().err


def test_a_folder_without_a_state(tmp_path, capsys):
    (tmp_path / "b.csv").write_text(ROWS)
    assert predict(tmp_path / "nothing") == 2
    assert "holds nothing that was learned" in capsys.readouterr().err
