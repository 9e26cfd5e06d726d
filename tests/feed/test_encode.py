"""From rows to tensors: exact statistics, categories, missing values, targets."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from taskfree.feed.encode import (
    OWN,
    SHARED,
    Classes,
    Numbers,
    Pictures,
    Running,
    Table,
    Unreadable,
    kind_of,
)

VALUE = st.floats(-1e6, 1e6) | st.just(math.nan)


@given(st.lists(st.lists(st.tuples(VALUE, VALUE), min_size=1, max_size=5), min_size=1, max_size=6))
def test_running_statistics_are_those_of_all_that_came(blocks):
    running = Running(2)
    for block in blocks:
        values = torch.tensor(block, dtype=torch.float64)
        missing = values.isnan()
        running.add(values, missing if missing.any() else None)
    everything = torch.tensor([row for block in blocks for row in block], dtype=torch.float64)
    for column in range(2):
        there = everything[:, column][~everything[:, column].isnan()]
        assert running.count[column] == len(there)
        if len(there):
            scale = 1 + there.abs().max().item()
            assert abs(running.mean[column] - there.mean()) < 1e-9 * scale
            variance = running.squares[column] / len(there)
            assert abs(variance - there.var(unbiased=False)) < 1e-9 * scale**2


def encoded(table, rows, **options):
    return table.encode([table.read(row) for row in rows], **options)


def test_missing_numbers_are_the_mean_and_said_so():
    table = Table({"a": "number", "b": "number"}, gaps=["b"])
    inputs = encoded(table, [["1", "5"], ["3", "NA"], ["", "7"]])
    assert inputs.shape == (3, 3)
    assert inputs[:, 0].tolist() == [-1, 1, 0], "of column a a missing value was not expected"
    assert inputs[:, 1].tolist() == [-1, 0, 1]
    assert inputs[:, 2].tolist() == [0, 1, 0]


def test_categories_have_places_until_there_are_too_many():
    table = Table({"c": "category"})
    many = encoded(table, [[f"value {number}"] for number in range(OWN + 40)])
    assert (many.sum(1) == 1).all()
    assert torch.equal(many[:OWN, :OWN], torch.eye(OWN))
    assert many[OWN:, :OWN].sum() == 0
    assert many.shape == (OWN + 40, OWN + SHARED)
    again = encoded(table, [["value 3"], [None], ["value 70"]])
    assert again[0, 3] == 1
    assert again[1].sum() == 0
    assert torch.equal(again[2], many[70])


def test_without_learning_nothing_is_taken_in():
    table = Table({"a": "number", "c": "category"})
    encoded(table, [["1", "x"], ["3", "y"]])
    before = (table.running.mean.clone(), dict(table.places[0]))
    inputs = encoded(table, [["100", "z"]], learn=False)
    assert (table.running.mean, table.places[0]) == before
    assert inputs[0, 0] == 8, "far away is brought near"
    assert inputs[0, 1 : 1 + OWN].sum() == 0


def test_columns_that_are_not_looked_at_may_hold_anything():
    table = Table({"id": "", "a": "number"})
    assert table.width == 1
    assert table.read([object(), "2"]) == ([2.0], [])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (["x", "y"], "a must be a number, is 'x'"),
        (["inf", "y"], "a is infinite"),
        ([[1], "y"], "a must be a number"),
    ],
)
def test_rows_that_cannot_be_read_say_why(row, message):
    table = Table({"a": "number", "c": "category"})
    with pytest.raises(Unreadable, match=message):
        table.read(row)


def test_what_a_row_said_can_be_told_again():
    table = Table({"a": "number", "b": "number", "c": "category"}, gaps=["b"])
    inputs = encoded(table, [["1", "5", "wet"], ["3", "", "dry"], ["4", "7", None]])
    assert table.decode(inputs[0]) == {"a": "1", "b": "5", "c": "wet"}
    assert table.decode(inputs[1]) == {"a": "3", "b": "missing", "c": "dry"}
    assert table.decode(inputs[2])["c"] == "missing"


def test_a_table_goes_on_from_its_state():
    table, other = (Table({"a": "number", "c": "category"}) for _ in range(2))
    encoded(table, [["1", "x"], ["3", "y"]])
    other.load_state_dict(table.state_dict())
    rows = [["5", "y"], ["-2", "z"]]
    assert torch.equal(encoded(table, rows), encoded(other, rows))


def test_classes_grow_and_1_is_1():
    classes = Classes()
    read = [classes.read(value) for value in ("b", 1.0, 1, "1", True)]
    assert classes.encode(read).tolist() == [0, 1, 1, 1, 2]
    assert classes.encode(["c", "b"], learn=False).tolist() == [-1, 0]
    other = Classes()
    other.load_state_dict(classes.state_dict())
    assert other.encode(["new", "b"]).tolist() == [3, 0]


def test_numbers_are_scaled_as_they_come_and_back():
    numbers = Numbers()
    for values in ([10.0, 20.0], [30.0, 60.0]):
        scaled = numbers.scaled(numbers.encode(values))
        assert torch.allclose(numbers.unscaled(scaled), torch.tensor(values).double(), atol=1e-5)
    assert float(numbers.running.mean) == 30


@pytest.mark.parametrize("target", [Classes(), Numbers()])
def test_missing_targets(target):
    for value in (None, "", "NaN", math.nan):
        with pytest.raises(Unreadable, match="the target is missing"):
            target.read(value)


def test_targets_that_are_no_numbers():
    with pytest.raises(Unreadable, match="must be a number, is 'much'"):
        Numbers().read("much")
    with pytest.raises(Unreadable, match="infinite"):
        Numbers().read("-inf")


def test_kinds():
    assert kind_of(["1", 2, None, "nan"]) == "number"
    assert kind_of(["1", "two"]) == "category"
    assert kind_of([True, False]) == "number"


def test_pictures_of_any_size_and_mode(tmp_path):
    Image.new("L", (20, 10), 200).save(tmp_path / "grey.png")
    Image.effect_noise((50, 50), 80).convert("RGBA").save(tmp_path / "noise.png")
    (tmp_path / "broken.png").write_bytes((tmp_path / "noise.png").read_bytes()[:200])
    pictures = Pictures(1, 16)
    pictures.folder = tmp_path
    inputs = pictures.encode([pictures.read(["", name]) for name in ("grey.png", "noise.png")])
    assert inputs.shape == (2, 3, 16, 16)
    assert inputs[0].abs().max() == 0
    assert inputs[1].std().item() == pytest.approx(1, abs=0.01)
    for name in ("broken.png", "missing.png"):
        with pytest.raises(Unreadable, match=f"{name} cannot be read"):
            pictures.read(["", name])
