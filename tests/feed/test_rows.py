"""Rows of every source: what is read, what cannot be, and where to go on."""

import csv
import gzip
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from taskfree.feed.rows import CSV, START, JSONLines, open_source

TABLE = [{"speed": 1.5, "road": "wet"}, {"speed": 2.0, "road": "dry"}, {"speed": 3.0, "road": None}]


def write_csv(file, rows):
    with open(file, "w", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def write(file, rows):
    """The same rows in the format that the name says."""
    table = pa.Table.from_pylist(rows)
    if file.name.endswith(".csv"):
        write_csv(file, rows)
    elif file.name.endswith(".csv.gz"):
        write_csv(file.with_suffix(""), rows)
        file.write_bytes(gzip.compress(file.with_suffix("").read_bytes()))
    elif file.suffix == ".jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif file.suffix == ".parquet":
        pq.write_table(table, file)
    elif file.suffix == ".arrow":
        with pa.ipc.new_file(file, table.schema) as out:
            out.write_table(table)
    else:
        with pa.ipc.new_stream(file, table.schema) as out:
            out.write_table(table)
    return file


@pytest.mark.parametrize(
    "name", ["a.csv", "a.csv.gz", "a.jsonl", "a.parquet", "a.arrow", "stream.ipc"]
)
def test_the_same_rows_from_every_format_and_from_every_place(tmp_path, name):
    source = open_source(str(write(tmp_path / name, TABLE)))
    pick = source.picker(["road", "speed"])
    rows = list(source.rows())
    assert not any(row.problem for row in rows)
    values = [pick(row.values) for row in rows]
    assert [(road or None, float(speed)) for road, speed in values] == [
        (row["road"], row["speed"]) for row in TABLE
    ]
    for at in range(len(rows) + 1):
        place = rows[at - 1].end if at else START
        assert list(source.rows(place)) == rows[at:], "it goes on where it was left"
        assert source.beginning(place) == open_source(str(tmp_path / name)).beginning(place)


@given(
    cells=st.lists(
        st.lists(st.text(max_size=6).filter(lambda t: "\0" not in t), min_size=2, max_size=2),
        min_size=1,
        max_size=8,
    )
)
def test_any_text_that_a_csv_can_hold_comes_back_and_can_be_continued(tmp_path_factory, cells):
    file = tmp_path_factory.mktemp("csv") / "a.csv"
    with open(file, "w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, quoting=csv.QUOTE_ALL)
        writer.writerows([["a", "b"], *cells])
    source = open_source(str(file))
    rows = list(source.rows())
    assert [row.values for row in rows] == cells
    for at, row in enumerate(rows):
        assert [later.values for later in source.rows(row.end)] == cells[at + 1 :]


def test_rows_that_cannot_be_read_are_rows_with_a_reason(tmp_path):
    (tmp_path / "a.csv").write_bytes(
        b"a,b\n1,2\n3\n\n4,5,6\n\xff,7\n8,9\n" + b'"' + b"x" * 140_000 + b'"\n10,11\n'
    )
    rows = list(open_source(str(tmp_path / "a.csv")).rows())
    assert [(row.number, row.values) for row in rows if not row.problem] == [
        (2, ["1", "2"]), (7, ["8", "9"]), (9, ["10", "11"]),
    ]  # fmt: skip
    problems = {row.number: row.problem for row in rows if row.problem}
    assert problems[3] == "has 1 values and there are 2 columns"
    assert problems[5] == "has 3 values and there are 2 columns"
    assert problems[6] == "is not UTF-8"
    assert "larger than field limit" in problems[8]
    (tmp_path / "a.jsonl").write_bytes(b'{"a": 1}\n[2]\n{"a": \n\n"\xff"\n{"a": 3}\n')
    rows = list(open_source(str(tmp_path / "a.jsonl")).rows())
    assert [row.values for row in rows] == [{"a": 1}, None, None, None, {"a": 3}]
    assert [row.number for row in rows] == [1, 2, 3, 5, 6]
    assert [row.problem.partition(":")[0] for row in rows] == [
        "", "must be an object with names, is a list", "is not JSON", "is not UTF-8", "",
    ]  # fmt: skip


def test_a_file_that_has_grown_goes_on_with_what_is_new(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("a,b\n1,2\n3,4")  # the last line has no end yet
    source = open_source(str(file))
    *_, last = source.rows()
    assert last.values == ["3", "4"]
    file.write_text("a,b\n1,2\n3,4\n5,6\n")
    assert [row.values for row in source.rows(last.end)] == [["5", "6"]]
    assert source.beginning(last.end) == open_source(str(file)).beginning(last.end)
    file.write_text("a,b\n1,2\n3,456\n5,6\n")
    cut, after = source.rows(last.end)
    assert "before it was complete" in cut.problem
    assert after.values == ["5", "6"]


def test_another_file_begins_in_another_way(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("a\n1\n2\n")
    *_, last = open_source(str(file)).rows()
    before = open_source(str(file)).beginning(last.end)
    file.write_text("a\n1\n3\n")
    assert open_source(str(file)).beginning(last.end) != before


def test_standard_input_is_csv_or_json_lines(monkeypatch):
    for content, kind in ((b"a;b\n1;2\n", CSV), (b'{"a": 1}\n', JSONLines)):
        stdin = io.BufferedReader(io.BytesIO(content))
        monkeypatch.setattr("taskfree.feed.rows._standard_input", lambda stdin=stdin: stdin)
        source = open_source("-")
        assert isinstance(source, kind)
        assert source.live
        (row,) = source.rows()
        assert source.picker(["a"])(row.values) in (["1"], [1])


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(tmp_path, delimiter):
    (tmp_path / "a.csv").write_text(f"a{delimiter}b\n1{delimiter}2\n")
    source = open_source(str(tmp_path / "a.csv"))
    assert list(source.columns) == ["a", "b"]
    assert next(source.rows()).values == ["1", "2"]


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfa,b\n1,2\n")
    assert open_source(str(tmp_path / "a.csv")).columns == ["a", "b"]


def test_columns_are_found_by_name_in_whatever_order(tmp_path):
    (tmp_path / "a.csv").write_text("b,x,a\n1,2,3\n")
    source = open_source(str(tmp_path / "a.csv"))
    (row,) = source.rows()
    assert source.picker(["a", "b"])(row.values) == ["3", "1"]
    assert source.picker(["a", "y"], optional=["y"])(row.values) == ["3", None]
    with pytest.raises(ValueError, match="no column 'y'; it has b, x, a"):
        source.picker(["a", "y"])


def test_a_folder_of_pictures_in_the_order_of_their_names(tmp_path):
    for name in ("cat/002.png", "dog/001.png", "dog/deep/003.jpg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4)).save(tmp_path / name)
    (tmp_path / "notes.txt").write_text("no picture")
    source = open_source(str(tmp_path))
    rows = list(source.rows())
    assert [row.values for row in rows] == [
        ["dog/001.png", "dog"], ["cat/002.png", "cat"], ["dog/deep/003.jpg", "deep"],
    ]  # fmt: skip
    assert list(source.rows(rows[0].end)) == rows[1:]
    assert source.size() == 3


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.csv", None, "there is no"),
        ("a.dat", "a\n1\n", "does not say what it is: pass --format"),
        ("a.csv", "", "must begin with a line of column names, and is empty"),
        ("a.csv", "a,b,a\n", "more than one column 'a'"),
        ("a.parquet", "no parquet", "cannot be read as parquet"),
        ("a.arrow", "no arrow", "cannot be read as arrow"),
    ],
)
def test_what_is_no_source(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        open_source(str(tmp_path / name))


def test_a_folder_without_pictures(tmp_path):
    with pytest.raises(ValueError, match="holds no pictures"):
        open_source(str(tmp_path))
