import pytest

from taskfree.tabular.schema import Choices, Schema, infer
from taskfree.tabular.sources import open_source


def inferred(folder, text, target="label", **options):
    file = folder / "a.csv"
    file.write_text(text)
    source = open_source(str(file))
    choices = Choices(
        target=target, **{k: v for k, v in options.items() if k not in ("task", "ignore")}
    )
    rest = {k: v for k, v in options.items() if k in ("task", "ignore")}
    return infer(list(source.rows()), source, choices, **rest)


TABLE = "x,y,colour,id,label\n1,2,red,a,up\n3,,green,b,down\n"


def test_columns_and_task_are_inferred_from_the_first_rows(tmp_path):
    schema = inferred(tmp_path, TABLE, ignore=("id",))
    assert schema.kinds == {
        "x": "number",
        "y": "number",
        "colour": "category",
        "id": "",
        "label": "",
    }
    assert schema.keys == ["colour"]
    assert schema.task == "classification"


def test_environments_are_not_inputs(tmp_path):
    schema = inferred(tmp_path, TABLE, environment="colour")
    assert schema.kinds["colour"] == ""


def test_with_an_image_column_nothing_else_is_an_input(tmp_path):
    schema = inferred(tmp_path, TABLE, image="id")
    assert not any(schema.kinds.values())


@pytest.mark.parametrize(
    ("targets", "task"),
    [
        (["a", "b"], "classification"),
        (map(str, range(20)), "classification"),
        (map(str, range(21)), "regression"),
        (["1", "2.5"], "regression"),
        (["1.0", "2.0", "NA"], "classification"),
    ],
)
def test_the_task_depends_on_the_targets(tmp_path, targets, task):
    text = "x,label\n" + "".join(f"1,{target}\n" for target in targets)
    assert inferred(tmp_path, text).task == task


def test_a_given_task_overrides_the_targets(tmp_path):
    assert inferred(tmp_path, "x,label\n1,0\n2,1\n", task="regression").task == "regression"


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (TABLE, {"target": "price"}, "has no column 'price'; it has 'x', 'y'"),
        (TABLE, {"ignore": ("z",)}, "has no column 'z'"),
        ("x,label\n", {}, "none of the first 0 rows of .* can be read; it is empty"),
        ("x,label\n1\n", {}, "none of the first 1 rows .*: line 2 has 1 values"),
    ],
)
def test_what_makes_no_schema(tmp_path, text, options, message):
    with pytest.raises(ValueError, match=message):
        inferred(tmp_path, text, **options)


def test_a_schema_is_stored_by_the_names_of_the_first_version():
    choices = Choices(target="y", batch_size=8, buffer_size=50, seed=3)
    schema = Schema(choices, "regression", {"x": "number", "y": ""}, {"x": "comma"})
    state = schema.state_dict()
    assert (state["batch"], state["buffer"], state["task"]) == (8, 50, "numbers")
    assert not {"batch_size", "buffer_size", "choices"} & state.keys()
    other = Schema()
    other.load_state_dict(state)
    assert other == schema


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": -1}, "batch_size must be an integer of at least 0, got -1"),
        ({"buffer_size": -1}, "buffer_size must be an integer of at least 0, got -1"),
        ({"lr": 0.0}, "lr must be above 0, got 0.0"),
        ({"strength": -1.0}, "strength must be finite and at least 0, got -1.0"),
        ({"size": 0}, "size must be an integer of at least 1, got 0"),
        ({"seed": -1}, "seed must be an integer of at least 0, got -1"),
    ],
)
def test_invalid_choices_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Choices(**options)


def table_of(**columns):
    rows = zip(*columns.values(), strict=True)
    lines = [",".join(columns), *(",".join(f'"{value}"' for value in row) for row in rows)]
    return "\n".join(lines) + "\n"


def test_what_is_said_of_columns(tmp_path):
    count = range(40)
    schema = inferred(
        tmp_path,
        table_of(
            row=count,
            uuid=[f"{number * 7919:x}-{number}" for number in count],
            price=[f"1.{number:03},50" for number in count],
            day=[f"{1 + number % 28}.01.2024" for number in count],
            station_id=[number % 3 for number in count],
            note=[f"some words on number {number}" for number in count],
            x=[number * 0.5 for number in count],
            version=[3] * 40,
            label=["up", "down"] * 20,
        ),
    )
    assert schema.kinds == {
        "row": "", "uuid": "", "price": "number", "day": "time", "station_id": "category",
        "note": "text", "x": "number", "version": "number", "label": "",
    }  # fmt: skip
    assert schema.forms == {"price": "comma", "day": "%d.%m.%Y"}
    assert schema.keys == ["station_id", "weekday of day", "month of day"]
    assert schema.notes == {
        "row": "left out: it counts the rows",
        "uuid": "left out: all of its first 40 values differ",
        "price": "numbers with a decimal comma, such as '1.000,50'",
        "day": "time, such as '1.01.2024'",
        "station_id": "its whole numbers are read as names",
        "note": "text, such as 'some words on number 0'",
        "version": "is '3' in all of the first 40 rows",
    }


def test_a_state_of_an_earlier_version_is_refused():
    with pytest.raises(ValueError, match="earlier version of taskfree"):
        Schema().load_state_dict({"kinds": {}, "gaps": [], "task": "numbers"})
