"""Summary, targets and tables of the television experiment."""

import pytest

from taskfree.paper.tv import analysis
from taskfree.paper.tv.config import SETTINGS


def runs(**curves):
    """Two seeds of every setting, with an accuracy of a half by default."""
    return [
        {
            "setting": setting.name,
            "seed": seed,
            "curve": [
                {
                    "accuracy": value + 0.02 * seed,
                    "episodes": {1: value, 2: 2 * value},
                    "actors": {"amy": value, "leo": 0.0},
                }
                for value in curves.get(setting.name.replace(" ", "_"), [0.5, 0.5, 0.5])
            ],
            "events": [{"kind": "plateau"}, {"kind": "peak"}, {"kind": "plateau"}][: 2 + seed],
            "seconds": 3.0,
        }
        for setting in SETTINGS
        for seed in (0, 1)
    ]


def test_the_aims_are_gaps_losses_forgetting_and_drops():
    found = analysis.aims(
        runs(
            initial=[0.1],
            online=[0.1, 0.6, 0.4],
            online_continual=[0.1, 0.4, 0.6],
            **{"online_continual,_decay": [0.1, 0.5, 0.2, 0.6]},
        )
    )
    assert {name: pytest.approx(values) for name, values in found.items()} == {
        "online above initial": [0.3, 0.3],
        "online continual above online": [0.2, 0.2],
        "online continual above online joint": [0.1, 0.1],
        "online continual above offline joint": [0.1, 0.1],
        "online, lost since the middle of the series": [0.2, 0.2],
        "online continual, lost since the middle of the series": [-0.2, -0.2],
        "forgotten of each episode, online": [0.3, 0.3],
        "forgotten of each episode, online continual": [0, 0],
        "forgotten of each episode, online above online continual": [0.3, 0.3],
        "self-supervised, online above initial": [0.4, 0.4],
        "self-supervised, online continual above online": [0, 0],
        "hard buffer, online": [-0.1, -0.1],
        "hard buffer, online continual": [0.1, 0.1],
        "falls from part to part, with decay above those without": [0.3, 0.3],
    }
    assert {*analysis.TARGETS, *analysis.NO_TARGET} <= set(found)


def test_a_target_is_met_only_by_more_than_the_standard_error():
    def cells(name, *values):
        return analysis.aims_table({name: list(values)})[1]

    assert cells("hard buffer, online", 0.01, 0.03)[1:] == ["above 0", "2.0", "1.0, 3.0", "met"]
    assert cells("hard buffer, online", -0.05, 0.06)[-1] == "within the error"
    assert cells("hard buffer, online", 0.0, 0.0)[-1] == "missed"
    assert cells("hard buffer, online", -0.02, -0.03)[-1] == "missed"
    offline = "online continual above offline joint"
    assert cells(offline, -0.07, -0.06)[1] == "above -8"
    assert cells(offline, -0.07, -0.06)[-1] == "met"
    assert cells(offline, -0.09, -0.1)[-1] == "missed"
    assert cells(analysis.NO_TARGET[0], -0.09, -0.1)[1::3] == ["", ""], "it has no target"


def test_the_summary_and_its_table():
    rows = analysis.summary(runs(online=[0.1, 0.6]))
    assert [row["setting"] for row in rows] == [setting.name for setting in SETTINGS]
    online = rows[1]
    assert online["accuracy"] == [0.61, 0.0141]
    assert online["mean over actors"] == [0.3, 0.0]
    assert online["after each part"] == [[0.11, 0.0141], [0.61, 0.0141]]
    assert online["after each part, by seed"] == [[0.1, 0.6], pytest.approx([0.12, 0.62])]
    assert online["consolidations"] == [1.5, 0.7071]
    heading, _, line, *_ = analysis.table(rows)
    assert heading == ["", "accuracy", "mean over actors", "consolidations"]
    assert line == ["online", "61.0 ± 1.4 %", "30.0 ± 0.0 %", "1.5"]
