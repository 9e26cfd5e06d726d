import pytest

from taskfree.tabular.values import is_missing, kind_of


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", 2, None, "nan"], "number"),
        (["1", "two"], "category"),
        ([True, False], "number"),
        (["1"] * 9 + ["two"], "number"),
        (["1"] * 8 + ["two"], "category"),
    ],
)
def test_the_kind_of_a_column(values, kind):
    assert kind_of(values) == kind


@pytest.mark.parametrize(
    "value", [None, "", " ", "NA", "n/a", "NaN", "null", "None", "?", float("nan")]
)
def test_missing_values(value):
    assert is_missing(value)


@pytest.mark.parametrize("value", [0, False, "0", "no", "-", 0.0, float("inf"), ()])
def test_values_that_are_not_missing(value):
    assert not is_missing(value)
