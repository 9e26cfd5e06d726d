"""Rows as inputs: tables of any columns, and images."""

import copy

import pytest
import torch
from PIL import Image

from taskfree.tabular.columns import ABSENT
from taskfree.tabular.columns.category import HASHES, OWN
from taskfree.tabular.encoders import ImageEncoder, TableEncoder
from taskfree.tabular.values import RowError


def encoded(table, rows, **options):
    return table.encode([table.read(row) for row in rows], **options)


def prepared(table, rows, **options):
    return table.prepare(encoded(table, rows, **options))


def comparable(table):
    state = table.state_dict()
    return [str(state["inputs"]), sorted(map(str, state["columns"].items()))]


def test_missing_numbers_are_seen_as_the_mean_and_marked():
    table = TableEncoder({"a": "number", "b": "number"})
    seen = prepared(table, [["1", "5"], ["3", "NA"], ["3", "7"], ["1", ""]])
    assert seen[:, 0].tolist() == [-1, 1, 1, -1]
    assert seen[:, 1].tolist() == [-1, 0, 1, 0]
    assert seen[:, 2].tolist() == [0, 1, 0, 1], "marks what is missing"
    assert seen.shape == (4, 3), "column a has no mark for missing values"


def test_a_number_that_turns_to_codes_is_read_as_codes():
    table = TableEncoder({"a": "number", "b": "number"})
    seen = prepared(table, [["1", "5"], ["x7", "5"], ["x8", "5"], ["x7", "5"]])
    assert torch.equal(seen[1], seen[3])
    assert not torch.equal(seen[1], seen[2]), "codes are told apart"
    assert table.decode(encoded(table, [["x8", "5"]])[0]) == {"a": "x8", "b": "5"}


def test_categories_have_their_own_inputs_until_there_are_too_many():
    table = TableEncoder({"c": "category"})
    many = prepared(table, [[f"value {number}"] for number in range(OWN + 40)])
    assert (many[:OWN].sum(1) == 1).all()
    assert len(many[:OWN].nonzero()[:, 1].unique()) == OWN
    later = many[OWN:]
    assert (later.sum(1) <= HASHES).all()
    assert not later[:, many[:OWN].any(0)].any(), "they share other inputs"
    assert len(later.unique(dim=0)) > 38, "nearly all of them differ"
    again = prepared(table, [["value 3"], [None], ["value 70"]])
    assert torch.equal(again[0], many[3])
    assert again[1].sum() == 0
    assert torch.equal(again[2], many[70])


def test_a_million_categories_take_no_more_room():
    table = TableEncoder({"c": "category"})
    for start in range(0, 20_000, 1000):
        encoded(table, [[f"id {number}"] for number in range(start, start + 1000)])
    assert table.width < 200


def test_encoding_without_learning_changes_nothing():
    table = TableEncoder({"a": "number", "c": "category"})
    encoded(table, [["1", "x"], ["3", "y"]])
    before = copy.deepcopy(table.state_dict())
    inputs = table.encode([table.read(["100", "z"], late={"w": 3})], learn=False)
    assert str(table.state_dict()) == str(before)
    seen = table.prepare(inputs)
    assert seen[0, 0] == 8, "far values are clipped"
    assert seen[0, 1:].sum() == 0


def test_ignored_columns_may_hold_anything():
    table = TableEncoder({"id": "", "a": "number"})
    assert table.read([object(), "2"]).numbers == [2.0]
    assert [column.name for column in table.columns] == ["a"]


@pytest.mark.parametrize(
    ("kinds", "row", "message"),
    [
        ({"a": "number"}, ["inf"], "a is infinite"),
        ({"a": "number"}, ["1e999"], "a is infinite"),
        ({"when": "time"}, ["soon"], "when must be a time, got 'soon'"),
    ],
)
def test_the_error_of_an_unreadable_row_says_why(kinds, row, message):
    table = TableEncoder(kinds, {"when": "iso"})
    with pytest.raises(RowError, match=message):
        table.read(row)


@pytest.mark.parametrize("value", ["9" * 400, 10**400, 1e300, "-1e250"])
def test_huge_numbers_stay_finite(value):
    table = TableEncoder({"a": "number"})
    try:
        inputs = encoded(table, [["1"], ["2"], [value]])
    except RowError:
        return
    assert inputs.isfinite().all()
    assert table.prepare(inputs).isfinite().all()


def test_a_column_that_appears_late_joins():
    table = TableEncoder({"a": "number"})
    first = encoded(table, [["1"], ["3"]])
    rows = [table.read(["2"], late={"wind": 4, "road": "wet"}), table.read(["2"], late={"wind": 6})]
    later = table.encode(rows)
    assert table.kinds == {"a": "number", "wind": "number", "road": "category"}
    padded = torch.nn.functional.pad(first, (0, later.shape[1] - first.shape[1]), value=ABSENT)
    assert torch.equal(table.prepare(padded)[:, 0], torch.tensor([-1.0, 1.0]).mul(2**0.5))
    assert table.decode(later[0]) == {"a": "2", "wind": "4", "road": "wet"}
    assert table.decode(padded[0]) == {"a": "1", "wind": "missing", "road": "missing"}


def test_times_are_read_in_their_parts():
    forms = {"when": "%d.%m.%Y %H:%M"}
    table = TableEncoder({"when": "time"}, forms, ["hour of when", "weekday of when"])
    rows = [table.read([f"{day:02}.03.2024 06:00"]) for day in (4, 11, 12)]
    seen = table.prepare(table.encode(rows))
    same = (seen[0] - seen[1]).abs() < 0.2
    assert same.sum() == seen.shape[1] - 1, "a week later only the days since then differ"
    assert table.keys_of(rows) == [["6", "6", "6"], ["0", "0", "1"]]
    assert table.decode(table.encode(rows)[0]) == {"when": "2024-03-04 06:00:00"}


def test_texts_with_words_in_common_are_alike():
    table = TableEncoder({"title": "text"})
    titles = ["The long day of a cat", "A cat and its long day", "Quarterly profits rise"]
    seen = prepared(table, [[title] for title in titles])
    alike, other = seen[0] @ seen[1], seen[0] @ seen[2]
    assert alike > 2 * other


def test_whole_numbers_can_be_keys():
    table = TableEncoder({"a": "number", "c": "category"}, keys=["c", "a"])
    rows = [table.read(row) for row in (["1", "x"], ["", "y"])]
    assert table.keys_of(rows) == [["x", "y"], ["1.0", None]]


def test_inputs_can_be_decoded():
    table = TableEncoder({"a": "number", "b": "number", "c": "category"})
    inputs = encoded(table, [["1", "5", "wet"], ["0", "", "dry"], ["4", "7", None]])
    assert table.decode(inputs[0]) == {"a": "1", "b": "5", "c": "wet"}
    assert table.decode(inputs[1]) == {"a": "0", "b": "missing", "c": "dry"}
    assert table.decode(inputs[2])["c"] == "missing"


def test_a_table_encoder_continues_from_its_state():
    kinds = {"a": "number", "c": "category", "when": "time"}
    table = TableEncoder(dict(kinds), {"when": "iso"})
    cells = [["1", "x", "2024-01-01"], ["code", "y", "2024-01-02"]]
    table.encode([table.read(row, late={"wind": 3}) for row in cells])
    other = TableEncoder(dict(table.kinds), dict(table.forms))
    other.load_state_dict(copy.deepcopy(table.state_dict()))
    rows = [["5", "y", "2024-01-03"], ["-2", "z", ""]]
    found = table.encode([table.read(row, late={"wind": 4}) for row in rows])
    again = other.encode([other.read([*row, 4]) for row in rows])
    assert torch.equal(found, again), "a column that came late is one like others from then on"
    assert comparable(table) == comparable(other)


def test_images_of_any_size_and_mode(tmp_path):
    Image.new("L", (20, 10), 200).save(tmp_path / "grey.png")
    Image.effect_noise((50, 50), 80).convert("RGBA").save(tmp_path / "noise.png")
    (tmp_path / "broken.png").write_bytes((tmp_path / "noise.png").read_bytes()[:200])
    images = ImageEncoder(1, 16)
    images.folder = tmp_path
    kept = images.encode([images.read(["", name]) for name in ("grey.png", "noise.png")])
    assert kept.dtype == torch.uint8
    inputs = images.prepare(kept)
    assert inputs.shape == (2, 3, 16, 16)
    assert inputs[0].abs().max() == 0
    assert inputs[1].std().item() == pytest.approx(1, abs=0.01)
    for name in ("broken.png", "missing.png"):
        with pytest.raises(RowError, match=f"{name} cannot be read"):
            images.read(["", name])
