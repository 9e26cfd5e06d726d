"""What every source has in common: rows, positions to continue from, columns by name."""

import csv
import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from taskfree.tabular.sources import START, open_source

TABLE = [{"speed": 1.5, "road": "wet"}, {"speed": 2.0, "road": "dry"}, {"speed": 3.0, "road": None}]


def write_csv(file, rows):
    with open(file, "w", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def write(file, rows):
    """The same rows in the format that the name asks for."""
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
def test_every_format_yields_the_same_rows_from_every_position(tmp_path, name):
    source = open_source(str(write(tmp_path / name, TABLE)))
    pick = source.picker(["road", "speed"])
    rows = list(source.rows())
    assert not any(row.problem for row in rows)
    values = [pick(row.values) for row in rows]
    assert [(road or None, float(speed)) for road, speed in values] == [
        (row["road"], row["speed"]) for row in TABLE
    ]
    for at in range(len(rows) + 1):
        position = rows[at - 1].end if at else START
        assert list(source.rows(position)) == rows[at:], "it continues where it was left"
        again = open_source(str(tmp_path / name))
        assert source.fingerprint(position) == again.fingerprint(position)


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_a_table_with_other_columns_has_another_fingerprint(tmp_path, name):
    source = open_source(str(write(tmp_path / name, TABLE)))
    other = open_source(str(write(tmp_path / f"other.{name}", [{"speed": 1.5}])))
    assert (source.size(), other.size()) == (3, 1)
    assert source.fingerprint((1, 1)) != other.fingerprint((1, 1))


def test_columns_are_found_by_name_in_any_order(tmp_path):
    (tmp_path / "a.csv").write_text("b,x,a\n1,2,3\n")
    source = open_source(str(tmp_path / "a.csv"))
    (row,) = source.rows()
    assert source.picker(["a", "b"])(row.values) == ["3", "1"]
    assert source.picker(["a", "y"], optional=["y"])(row.values) == ["3", None]
    with pytest.raises(ValueError, match="no column 'y'; it has b, x, a"):
        source.picker(["a", "y"])
