"""Rows as inputs: numbers, categories, missing values and images."""

import pytest
import torch
from PIL import Image

from taskfree.tabular.encoders import OWN, SHARED, ImageEncoder, TableEncoder
from taskfree.tabular.values import RowError


def encoded(table, rows, **options):
    return table.encode([table.read(row) for row in rows], **options)


def test_missing_numbers_become_the_mean_and_are_marked():
    table = TableEncoder({"a": "number", "b": "number"}, gaps=["b"])
    inputs = encoded(table, [["1", "5"], ["3", "NA"], ["", "7"]])
    assert inputs.shape == (3, 3)
    assert inputs[:, 0].tolist() == [-1, 1, 0], "column a has no mark for missing values"
    assert inputs[:, 1].tolist() == [-1, 0, 1]
    assert inputs[:, 2].tolist() == [0, 1, 0]


def test_categories_have_their_own_inputs_until_there_are_too_many():
    table = TableEncoder({"c": "category"})
    many = encoded(table, [[f"value {number}"] for number in range(OWN + 40)])
    assert (many.sum(1) == 1).all()
    assert torch.equal(many[:OWN, :OWN], torch.eye(OWN))
    assert many[OWN:, :OWN].sum() == 0
    assert many.shape == (OWN + 40, OWN + SHARED)
    again = encoded(table, [["value 3"], [None], ["value 70"]])
    assert again[0, 3] == 1
    assert again[1].sum() == 0
    assert torch.equal(again[2], many[70])


def test_encoding_without_learning_changes_nothing():
    table = TableEncoder({"a": "number", "c": "category"})
    encoded(table, [["1", "x"], ["3", "y"]])
    before = (table.scaler.mean.clone(), dict(table.places[0]))
    inputs = encoded(table, [["100", "z"]], learn=False)
    assert (table.scaler.mean, table.places[0]) == before
    assert inputs[0, 0] == 8, "far values are clipped"
    assert inputs[0, 1 : 1 + OWN].sum() == 0


def test_ignored_columns_may_hold_anything():
    table = TableEncoder({"id": "", "a": "number"})
    assert table.width == 1
    assert table.read([object(), "2"]) == ([2.0], [])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (["x", "y"], "a must be a number, got 'x'"),
        (["inf", "y"], "a is infinite"),
        ([[1], "y"], "a must be a number"),
    ],
)
def test_the_error_of_an_unreadable_row_says_why(row, message):
    table = TableEncoder({"a": "number", "c": "category"})
    with pytest.raises(RowError, match=message):
        table.read(row)


def test_inputs_can_be_decoded():
    table = TableEncoder({"a": "number", "b": "number", "c": "category"}, gaps=["b"])
    inputs = encoded(table, [["1", "5", "wet"], ["3", "", "dry"], ["4", "7", None]])
    assert table.decode(inputs[0]) == {"a": "1", "b": "5", "c": "wet"}
    assert table.decode(inputs[1]) == {"a": "3", "b": "missing", "c": "dry"}
    assert table.decode(inputs[2])["c"] == "missing"


def test_a_table_encoder_continues_from_its_state():
    table, other = (TableEncoder({"a": "number", "c": "category"}) for _ in range(2))
    encoded(table, [["1", "x"], ["3", "y"]])
    other.load_state_dict(table.state_dict())
    rows = [["5", "y"], ["-2", "z"]]
    assert torch.equal(encoded(table, rows), encoded(other, rows))


def test_images_of_any_size_and_mode(tmp_path):
    Image.new("L", (20, 10), 200).save(tmp_path / "grey.png")
    Image.effect_noise((50, 50), 80).convert("RGBA").save(tmp_path / "noise.png")
    (tmp_path / "broken.png").write_bytes((tmp_path / "noise.png").read_bytes()[:200])
    images = ImageEncoder(1, 16)
    images.folder = tmp_path
    inputs = images.encode([images.read(["", name]) for name in ("grey.png", "noise.png")])
    assert inputs.shape == (2, 3, 16, 16)
    assert inputs[0].abs().max() == 0
    assert inputs[1].std().item() == pytest.approx(1, abs=0.01)
    for name in ("broken.png", "missing.png"):
        with pytest.raises(RowError, match=f"{name} cannot be read"):
            images.read(["", name])
