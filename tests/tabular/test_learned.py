"""What was learned, as an object: `taskfree.load`."""

import json
import math

import pandas as pd
import pytest
import torch
from safetensors import safe_open

import taskfree
from points import learn, same, state_of, write
from taskfree.cli import main
from taskfree.tabular import networks


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a table that was learned."""
    path = tmp_path_factory.mktemp("learned")
    learn(write(path / "a.csv"), "--target", "label", "--state", path / "state")
    return path / "state"


HIGH, LOW = {"x": 9.5, "y": -3, "colour": "red"}, {"x": 1.0, "y": -3, "colour": "red"}


def test_rows_in_any_form_are_predicted(folder):
    table = taskfree.load(folder)
    assert (table.target, table.columns) == ("label", ["x", "y", "colour"])
    rows = [HIGH, LOW]
    expected = ["high", "low"]
    assert table.predict(rows) == expected
    assert table.predict([list(row.values()) for row in rows]) == expected
    assert table.predict(pd.DataFrame(rows)) == expected
    assert table.predict([{name: str(value) for name, value in row.items()} for row in rows]) == (
        expected
    )
    found = table.probabilities(rows)
    assert sum(found[0].values()) == pytest.approx(1)
    assert found[0]["high"] > 0.8 > 0.2 > found[1]["high"]


def test_what_is_missing_is_not_there(folder):
    table = taskfree.load(folder)
    assert table.probabilities([{"x": 9.5}]) == table.probabilities([{"x": 9.5, "colour": None}])
    assert table.probabilities([{"x": 9.5, "size": 3}]) == table.probabilities([{"x": 9.5}])


def test_an_explanation_names_the_column_that_tells_it(folder):
    found = taskfree.load(folder).explain(HIGH)
    assert next(iter(found)) == "x"
    assert found["x"] > 0.2 > abs(found["colour"])


def test_looking_changes_nothing(folder):
    before = state_of(folder)
    table = taskfree.load(folder)
    table.predict([HIGH])
    table.learn([HIGH], ["low"])
    assert same(state_of(folder), before), "nothing is saved unless it is asked for"


def test_it_learns_and_saves_elsewhere(folder, tmp_path):
    table = taskfree.load(folder)
    rows = pd.DataFrame({"x": [5.0, 5.1] * 200, "y": -3.0, "colour": ["new", "red"] * 200})
    table.learn(rows, ["third", "low"] * 200)
    table.save(tmp_path / "other")
    again = taskfree.load(tmp_path / "other")
    assert set(again.classes) == {"low", "high", "third"}
    assert again.predict(rows[:2]) == ["third", "low"]
    assert again.session.progress.rows == 1900


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (HIGH, TypeError, "put a single row in a list"),
        ("x", TypeError, "rows must be a list of dicts"),
        ([[1, 2]], ValueError, "have the values of"),
        ([], ValueError, "at least one row"),
        ([{"x": math.inf}], ValueError, "x is infinite; the row is"),
    ],
)
def test_rows_that_are_none(folder, rows, error, message):
    with pytest.raises(error, match=message):
        taskfree.load(folder).predict(rows)


def test_targets_must_fit_the_rows(folder):
    with pytest.raises(ValueError, match="got 1 for 2 rows"):
        taskfree.load(folder).learn([HIGH, LOW], ["low"])


def test_the_weights_alone_are_enough_to_predict(folder):
    with safe_open(folder / "network.safetensors", "pt") as file:
        about = json.loads(file.metadata()["taskfree"])
        weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    network = networks.mlp(len(about["inputs"]), len(about["classes"]))
    network.load_state_dict(weights)
    row = {"x": 9.5, "y": -3.0, "colour=red": 1.0}
    values = [
        (row[name] - shift) / scale if name in row else 0.0
        for name, shift, scale in about["inputs"]
    ]
    outputs = network(torch.tensor([values])).softmax(1)[0]
    assert about["classes"][int(outputs.argmax())] == "high"
    assert about["columns"] == {"x": "number", "y": "number", "colour": "category", "label": ""}


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("target", ["label", "y"])
def test_the_network_in_onnx_answers_the_same(folder, tmp_path, target, capsys):
    import onnxruntime

    state = folder
    if target != "label":  # a value
        state = tmp_path / "state"
        learn(folder.parent / "a.csv", "--target", target, "--state", state)
    file = tmp_path / "network.onnx"
    assert main(["export", str(state), "--onnx", str(file)]) == 0
    assert "inputs and returns" in capsys.readouterr().err
    running = onnxruntime.InferenceSession(str(file))
    about = json.loads(running.get_modelmeta().custom_metadata_map["taskfree"])
    row = {"x": 9.5, "y": -3.0, "colour=red": 1.0, "label=high": 1.0}
    values = [[row.get(name, math.nan) for name, *_ in about["inputs"]]] * 3
    found = running.run(None, {"inputs": torch.tensor(values).double().numpy()})[0]
    table = taskfree.load(state)
    if target == "label":
        expected = [list(one.values()) for one in table.probabilities([HIGH] * 3)]
    else:
        expected = table.predict([{**HIGH, "label": "high"}] * 3)
    assert torch.allclose(torch.tensor(found), torch.tensor(expected), atol=1e-4)


def test_rows_of_an_environment_are_learned_and_saved(tmp_path):
    file = write(tmp_path / "a.csv", rows=300)
    options = ["--target", "label", "--state", tmp_path / "state", "--environment", "colour"]
    learn(file, *options)
    table = taskfree.load(tmp_path / "state")
    table.learn([{"x": 9.5, "y": -3, "colour": "blue"}], ["high"])
    table.save()
    assert set(taskfree.load(tmp_path / "state").session.metric.by_environment) == {
        "red", "green", "blue",
    }  # fmt: skip


def test_what_has_no_meaning_is_refused(folder, tmp_path):
    table = taskfree.load(folder)
    with pytest.raises(ValueError, match="must have some of the columns 'x', 'y', 'colour'"):
        table.predict([{"prais": 3}])
    with pytest.raises(TypeError, match="targets must be a list with one value for each row"):
        table.learn([HIGH] * 4, "high")
    learn(folder.parent / "a.csv", "--target", "y", "--state", tmp_path / "numbers")
    with pytest.raises(ValueError, match="has no probabilities; call predict"):
        taskfree.load(tmp_path / "numbers").probabilities([{"x": 3}])
