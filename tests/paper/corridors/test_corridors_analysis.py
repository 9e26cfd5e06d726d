"""Summary, targets and tables of the corridor experiments."""

import pytest

from taskfree.paper.corridors import analysis
from taskfree.paper.corridors.experiment import SETTINGS

NAMES = [setting.name for setting in SETTINGS]
CORRIDORS = ("A", "B", "C")


def runs(**finals):
    """Two seeds of every setting: balanced accuracies in A, B and C; accuracy is 0.9."""
    found = []
    for name in NAMES:
        for seed in (0, 1):
            values = finals.get(
                name.replace(", ", "_").replace("-", "_").replace(" ", "_"), [0.5] * 3
            )
            final = [[0.9, value + 0.1 * seed] for value in values]
            flown = [{"collisions": seed, "seconds": 20.0, "first": 10.0 + seed}] * 3
            ordered = "joint" not in name and name != "scratch"
            found.append({"setting": name, "seed": seed, "final": final, "flown": flown,
                          "just flown": final if ordered else []})  # fmt: skip
    return found


def test_the_summary_has_means_over_corridors_and_seeds():
    rows = {
        row["setting"]: row
        for row in analysis.summary(CORRIDORS, NAMES, runs(online=[0.3, 0.6, 0.9]))
    }
    online = rows["online"]
    assert online["accuracy"] == [0.9, 0.0]
    assert online["balanced accuracy"] == [0.65, 0.0707]
    assert online["balanced accuracy by corridor"]["A"] == [0.35, 0.0707]
    assert online["balanced accuracy, just flown"] == [0.65, 0.0707]
    assert "balanced accuracy, just flown" not in rows["online joint"]
    assert online["collisions per minute"] == [1.5, 2.1213]
    assert online["metres before the first collision"] == [10.5, 0.7071]


def test_the_aims_are_gaps_of_balanced_accuracy():
    found = analysis.aims(
        CORRIDORS, NAMES, runs(online=[0.2, 0.4, 0.6], online_class_balanced=[0.1, 0.1, 0.7])
    )
    assert found == {
        "online, class-balanced, in the corridor just flown": 0.35,
        "offline joint": 0.55,
        "continual minus online, all corridors": {"class-balanced": 0.2, "not balanced": 0.1},
        "continual minus online, first half": {"class-balanced": 0.4, "not balanced": 0.2},
        "continual minus online, last two": {"class-balanced": 0.1, "not balanced": 0.0},
        "continual minus online, all corridors, by seed": {
            "class-balanced": [0.2, 0.2], "not balanced": [0.1, 0.1],
        },
        "class-balanced minus not": {"online": -0.1, "online continual": 0.0},
    }  # fmt: skip


def test_tables():
    rows = analysis.summary(CORRIDORS, NAMES, runs())
    heading, *lines = analysis.table(rows)
    assert heading == [
        "", "accuracy (%)", "balanced accuracy (%)", "balanced accuracy, just flown (%)",
        "collisions per minute", "metres before the first collision",
    ]  # fmt: skip
    assert [line[0] for line in lines] == NAMES
    assert lines[2][1:] == ["90.0 ± 0.0", "55.0 ± 7.1", "55.0 ± 7.1", "1.5 ± 2.1", "10.5 ± 0.7"]
    assert lines[0][3] == ""
    assert analysis.table_by_corridor(rows)[:2] == [
        ["", "A", "B", "C"],
        ["scratch", "55", "55", "55"],
    ]


def test_without_rollouts_their_columns_are_left_out():
    rows = analysis.summary(CORRIDORS, NAMES, [one | {"flown": []} for one in runs()])
    assert analysis.table(rows)[0][-1] == "balanced accuracy, just flown (%)"
    with pytest.raises(KeyError):
        rows[0]["collisions per minute"]
