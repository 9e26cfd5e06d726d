"""Values of a row: what is missing, what is a number or a time."""

from datetime import date, datetime

import pytest

from taskfree.tabular.values import is_missing, kind_of, read_number, read_time


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", 2, None, "nan"], "number"),
        (["1", "two"], "category"),
        ([True, False], "number"),
        (["1"] * 9 + ["two"], "number"),
        (["1"] * 8 + ["two"], "category"),
        (["1,5", "2,25", "3"], "number"),
        (["$1,200.50", "$3"], "number"),
        (["12 %", "7 %"], "number"),
        (["2024-01-01", "2024-02-01 10:00"], "time"),
        (["20240101", "20240102"], "number"),
        (["01/02/2024", "13/02/2024"], "time"),
        (["Jan 1 2000", "Feb 1 2000"], "time"),
        ([datetime.fromisoformat(f"2024-01-0{day}") for day in (1, 2)], "time"),
        ([date(2024, 1, 1)], "time"),
        (["A long way to go", "What a day it was"], "text"),
        (["New York City"] * 5 + ["San Francisco Bay"] * 5, "category"),
    ],
)
def test_the_kind_of_a_column(values, kind):
    assert kind_of(values)[0] == kind


def test_the_order_of_rows_tells_days_from_months():
    """Neither is refused by any of the first rows."""
    days = [f"{1 + number // 24:02}" for number in range(240)]
    assert kind_of([f"01/{day}/2024" for day in days])[1] == "%m/%d/%Y"
    assert kind_of([f"{day}/01/2024" for day in days])[1] == "%d/%m/%Y"


def test_thousands_do_not_begin_with_0():
    assert kind_of(["0,412", "0,731"]) == ("number", "comma")
    assert kind_of(["1,412", "12,731"]) == ("number", "point")


def test_a_plain_column_has_no_commas():
    with pytest.raises(ValueError, match="12,5"):
        read_number("12,5", "")


def test_seconds_since_1970_are_a_time_only_by_name():
    values = ["1700000000", "1700003600"]
    assert kind_of(values, "timestamp") == ("time", "seconds")
    assert kind_of([value + "000" for value in values], "time") == ("time", "milliseconds")
    assert kind_of(values, "price")[0] == "number"


def test_days_that_cannot_be_months_decide_the_order():
    assert kind_of(["01/02/2024", "13/02/2024"])[1] == "%d/%m/%Y"
    assert kind_of(["01/02/2024", "02/13/2024"])[1] == "%m/%d/%Y"


@pytest.mark.parametrize(
    ("text", "form", "number"),
    [
        ("1.234,5", "comma", 1234.5), ("1,234.5", "point", 1234.5), ("€ 7,50", "comma", 7.5),
        ("12 %", "point", 12.0), ("-3 000", "point", -3000.0), (7, "comma", 7.0),
    ],
)  # fmt: skip
def test_numbers_as_people_write_them(text, form, number):
    assert read_number(text, form) == number


@pytest.mark.parametrize("bad", [("x", ""), ("1970", "iso"), (3, "iso"), ("2024-13-01", "iso")])
def test_what_is_no_number_or_time_is_refused(bad):
    value, form = bad
    with pytest.raises((TypeError, ValueError)):
        read_number(value, form) if not form else read_time(value, form)


@pytest.mark.parametrize(
    "value", [None, "", " ", "NA", "n/a", "NaN", "null", "None", "?", float("nan")]
)
def test_missing_values(value):
    assert is_missing(value)


@pytest.mark.parametrize("value", [0, False, "0", "no", "-", 0.0, float("inf"), ()])
def test_values_that_are_not_missing(value):
    assert not is_missing(value)
