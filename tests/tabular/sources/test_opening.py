import os
import types

import pytest

from taskfree.tabular.sources import open_source
from taskfree.tabular.sources.text import CSVSource, JSONLinesSource


@pytest.fixture
def standard_input(monkeypatch):
    """Sets what standard input holds."""
    opened = []

    def hold(content):
        read, write = os.pipe()
        with os.fdopen(write, "wb") as out:
            out.write(content)
        opened.append(read)
        monkeypatch.setattr("sys.stdin", types.SimpleNamespace(fileno=lambda: read))

    yield hold
    for descriptor in opened:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("content", "kind", "value"),
    [(b"a;b\n1;2\n", CSVSource, "1"), (b'{"a": 1}\n', JSONLinesSource, 1)],
    ids=["csv", "jsonl"],
)
def test_the_format_of_standard_input_is_detected(standard_input, content, kind, value):
    standard_input(content)
    source = open_source("-")
    assert isinstance(source, kind)
    assert source.live
    (row,) = source.rows()
    assert source.picker(["a"])(row.values) == [value]


def test_standard_input_can_not_be_a_table_file(standard_input):
    standard_input(b"a\n1\n")
    with pytest.raises(ValueError, match="must be csv or jsonl, got format 'parquet'"):
        open_source("-", "parquet")


def test_a_given_format_overrides_the_name(tmp_path):
    (tmp_path / "a.dat").write_text('{"a": 1}\n')
    assert isinstance(open_source(str(tmp_path / "a.dat"), "jsonl"), JSONLinesSource)
    with pytest.raises(ValueError, match="format must be 'csv' or 'jsonl'"):
        open_source(str(tmp_path / "a.dat"), "xml")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.csv", None, "there is no"),
        ("a.dat", "a\n1\n", "is not clear from its name: pass --format"),
        ("a.csv", "", "must start with a line of column names, but is empty"),
        ("a.csv", "a,b,a\n", "more than one column 'a'"),
        ("a.parquet", "no parquet", "cannot be read as parquet"),
        ("a.arrow", "no arrow", "cannot be read as arrow"),
    ],
)
def test_files_that_are_not_a_source(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        open_source(str(tmp_path / name))
