"""What the figures of the television experiment show."""

import pytest

from taskfree.paper.tv import figures


def test_markers_are_sized_by_the_tracks_of_an_actor_in_a_part():
    curve = [{"actors": {"amy": 0.1 * at, "leo": 0.5}} for at in range(5)]
    runs = [{"setting": name, "seed": 0, "curve": curve} for name in ("online", "online continual")]
    counts = [{"amy": 3}, {"leo": 1}, {"amy": 1, "leo": 1}, {}]
    amy, leo = figures.actors(runs, counts, tests_per_episode=2).axes
    assert amy.get_title() == "amy, 4 tracks"
    assert amy.collections[0].get_sizes().tolist() == [0, 18, 0, 6, 0]
    assert leo.collections[1].get_sizes().tolist() == [0, 0, 6, 6, 0]
    assert amy.collections[0].get_offsets()[:, 0].tolist() == [0, 0.5, 1, 1.5, 2]


def test_the_accuracy_on_an_episode_is_the_mean_over_the_seeds():
    runs = [
        {
            "setting": name,
            "seed": seed,
            "curve": [
                {"episode": at, "episodes": {"1": 0.1 * at, "3": 0.5 + 0.2 * seed}}
                for at in range(4)
            ],
        }
        for name in ("online", "online continual")
        for seed in (0, 1)
    ]
    first, second = figures.episodes(runs, tested="held-out faces").axes
    assert first.lines[0].get_ydata().tolist() == pytest.approx([0, 10, 20, 30])
    assert second.lines[1].get_ydata().tolist() == pytest.approx([60, 60, 60, 60])
    assert [axis.get_title() for axis in (first, second)] == ["episode 1", "episode 3"]
    grey = [axis.patches[0].get_width() for axis in (first, second)]
    assert grey == [0, 2], "before the episode is watched"


def test_settings_without_learning_or_with_several_epochs_are_horizontal_lines():
    def row(setting, curve):
        return {"setting": setting, "after each part": [[value, 0.0] for value in curve],
                "after each part, by seed": [curve]}  # fmt: skip

    rows = [row("initial", [0.2]), row("online", [0.2, 0.3, 0.4]),
            row("offline joint", [0.2, 0.3, 0.4, 0.5, 0.6])]  # fmt: skip
    (axis,) = figures.curves(rows, figures.MAIN, "Accuracy", tested="all faces").axes
    shown = {line.get_label(): line.get_ydata() for line in axis.lines}
    assert list(shown["initial"]) == [20, 20]
    assert list(shown["offline joint"]) == pytest.approx([60, 60])
    assert list(shown["online"]) == pytest.approx([20, 30, 40])
    assert axis.get_ylabel() == "accuracy on all faces (%)"
