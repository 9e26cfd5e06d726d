"""CSV and JSON lines: what is read, what cannot be read, and files that grow."""

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskfree.tabular.sources import open_source


@given(
    cells=st.lists(
        st.lists(st.text(max_size=6).filter(lambda t: "\0" not in t), min_size=2, max_size=2),
        min_size=1,
        max_size=8,
    )
)
def test_any_text_that_a_csv_can_hold_is_read_and_can_be_continued(tmp_path_factory, cells):
    file = tmp_path_factory.mktemp("csv") / "a.csv"
    with open(file, "w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, quoting=csv.QUOTE_ALL)
        writer.writerows([["a", "b"], *cells])
    source = open_source(str(file))
    rows = list(source.rows())
    assert [row.values for row in rows] == cells
    for at, row in enumerate(rows):
        assert [later.values for later in source.rows(row.end)] == cells[at + 1 :]


def test_unreadable_rows_of_a_csv_have_a_problem(tmp_path):
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


def test_unreadable_json_lines_have_a_problem(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'{"a": 1}\n[2]\n{"a": \n\n"\xff"\n{"a": 3}\n')
    rows = list(open_source(str(tmp_path / "a.jsonl")).rows())
    assert [row.values for row in rows] == [{"a": 1}, None, None, None, {"a": 3}]
    assert [row.number for row in rows] == [1, 2, 3, 5, 6]
    assert [row.problem.partition(":")[0] for row in rows] == [
        "", "must be an object, got a list", "is not JSON", "is not UTF-8", "",
    ]  # fmt: skip


def test_a_file_that_has_grown_continues_with_the_new_rows(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("a,b\n1,2\n3,4")  # the last line has no end yet
    source = open_source(str(file))
    *_, last = source.rows()
    assert last.values == ["3", "4"]
    file.write_text("a,b\n1,2\n3,4\n5,6\n")
    assert [row.values for row in source.rows(last.end)] == [["5", "6"]]
    assert source.fingerprint(last.end) == open_source(str(file)).fingerprint(last.end)
    file.write_text("a,b\n1,2\n3,456\n5,6\n")
    cut, after = source.rows(last.end)
    assert "before it was complete" in cut.problem
    assert after.values == ["5", "6"]


def test_a_file_with_another_beginning_has_another_fingerprint(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("a\n1\n2\n")
    *_, last = open_source(str(file)).rows()
    before = open_source(str(file)).fingerprint(last.end)
    file.write_text("a\n1\n3\n")
    assert open_source(str(file)).fingerprint(last.end) != before


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_detected(tmp_path, delimiter):
    (tmp_path / "a.csv").write_text(f"a{delimiter}b\n1{delimiter}2\n")
    source = open_source(str(tmp_path / "a.csv"))
    assert list(source.columns) == ["a", "b"]
    assert next(source.rows()).values == ["1", "2"]


def test_a_given_delimiter_is_used(tmp_path):
    (tmp_path / "a.csv").write_text("a:b,c\n1:2,3\n")
    source = open_source(str(tmp_path / "a.csv"), delimiter=":")
    assert list(source.columns) == ["a", "b,c"]
    assert next(source.rows()).values == ["1", "2,3"]


def test_a_byte_order_mark_is_not_part_of_a_name(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfa,b\n1,2\n")
    assert open_source(str(tmp_path / "a.csv")).columns == ["a", "b"]
