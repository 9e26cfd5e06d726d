import csv
import json

import pytest
from PIL import Image

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


def test_images_are_answered_by_their_names(tmp_path, capsys):
    for number in range(60):
        shade = "dark" if number % 2 else "light"
        (tmp_path / "images" / shade).mkdir(parents=True, exist_ok=True)
        image = Image.effect_noise((16, 16), 60).point(lambda v, n=number: v // 2 + 90 * (n % 2))
        image.paste(255 * (number % 2), (0, 0, 8, 16))
        image.save(tmp_path / "images" / shade / f"{number:03}.png")
    options = ["--state", str(tmp_path / "state")]
    assert main(["learn", str(tmp_path / "images"), *options, "--size", "16"]) == 0
    flat = tmp_path / "flat"
    flat.mkdir()
    image.save(flat / "new.png")
    capsys.readouterr()
    assert main(["predict", str(flat), *options]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["image"], answer["prediction"]) == ("new.png", "dark")
    assert main(["learn", str(flat), "--state", str(tmp_path / "other")]) == 2
    assert "move them, as in" in capsys.readouterr().err
