import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from losses import decisions
from same import assert_same, snapshot
from taskfree.when import Plateau

LOSSES = st.lists(st.floats(0, 10), max_size=60)


def definition(losses, size, mean_threshold, variance_threshold):
    """The docstring of Plateau, as a function of the whole history."""
    window, armed, old, found = [], True, (0, 0), []
    for loss in losses:
        window = [*window, loss][-size:]
        found.append(None)
        if len(window) < size:
            continue
        mean = sum(window) / len(window)
        variance = sum((loss - mean) ** 2 for loss in window) / len(window)
        if armed and mean < mean_threshold and variance < variance_threshold:
            window, armed, old = [], False, (mean, variance**0.5)
            found[-1] = "plateau"
        elif not armed and mean > old[0] + old[1]:
            armed = True
            found[-1] = "peak"
    return found


@given(LOSSES, st.integers(1, 6))
def test_plateau_follows_its_definition(losses, size):
    expected = definition(losses, size, 3, 2)
    assert decisions(Plateau(window=size, mean=3, variance=2), losses) == expected


def test_a_window_is_judged_only_when_full():
    trigger = Plateau(window=5, mean=1, variance=1)
    assert decisions(trigger, [0.0] * 4) == [None] * 4
    assert math.isnan(trigger.window_mean)
    assert trigger.update(0.0) == "plateau"
    assert trigger.window_mean == 0.0


def test_a_plateau_empties_the_window_and_only_a_peak_arms_again():
    trigger = Plateau(window=2, mean=1, variance=1)
    assert decisions(trigger, [0.5, 0.5]) == [None, "plateau"]
    assert not trigger.armed
    assert trigger.window == ()
    assert decisions(trigger, [0.5] * 10) == [None] * 10
    assert decisions(trigger, [0.6]) == ["peak"]
    assert trigger.armed
    assert decisions(trigger, [0.5]) == ["plateau"], "a peak does not empty the window"


def test_thresholds_are_strict():
    assert decisions(Plateau(window=1, mean=1, variance=1), [1.0]) == [None]
    assert decisions(Plateau(window=2, mean=9, variance=1), [0.0, 2.0]) == [None, None]


def test_plateau_explains_each_decision():
    trigger = Plateau(window=2, mean=1, variance=0.5)
    assert trigger.explain(None).text == "the window holds 0 of 2 losses"
    assert trigger.explain(None).thresholds == {}
    decisions(trigger, [1.0, 3.0])
    reason = trigger.explain(None)
    assert reason.text == (
        "the last 2 losses have mean 2 (not below 1) and variance 1 (not below 0.5)"
    )
    assert (reason.variance, reason.thresholds) == (1.0, {"mean": 1.0, "variance": 0.5})
    assert decisions(trigger, [0.5, 0.25])[-1] == "plateau"
    assert trigger.explain("plateau").text == (
        "the last 2 losses have mean 0.375 (below 1) and variance 0.0156 (below 0.5)"
    )
    assert decisions(trigger, [0.25, 0.25]) == [None, None]
    level = "0.5: the last plateau's mean 0.375 plus standard deviation 0.125"
    assert trigger.explain(None).text == f"the last 2 losses have mean 0.25 (not above {level})"
    assert trigger.explain(None).thresholds == {"mean": 0.5}
    assert decisions(trigger, [2.75]) == ["peak"]
    assert trigger.explain("peak").text == f"the last 2 losses have mean 1.5 (above {level})"


@given(LOSSES, st.integers(0, 60))
def test_a_loaded_plateau_continues_alike(losses, cut):
    whole, first, second = (Plateau(window=3, mean=3, variance=2) for _ in range(3))
    expected = decisions(whole, losses)
    started = decisions(first, losses[:cut])
    second.load_state_dict(snapshot(first))
    assert started + decisions(second, losses[cut:]) == expected
    assert_same(snapshot(second), snapshot(whole))


def test_a_window_that_does_not_fit_is_refused_and_nothing_changes():
    saved = Plateau(window=9, mean=1, variance=1)
    decisions(saved, [5.0] * 9)
    trigger = Plateau(window=3, mean=1, variance=1)
    before = snapshot(trigger)
    with pytest.raises(ValueError, match="holds 9 losses and this trigger's 3"):
        trigger.load_state_dict(saved.state_dict())
    assert_same(snapshot(trigger), before)


def test_the_state_is_flat_tensors_in_double_precision():
    trigger = Plateau(window=3, mean=1, variance=1)
    decisions(trigger, [1 / 3, 1 / 7, 0.1] * 4)
    for name, value in trigger.state_dict().items():
        assert isinstance(name, str)
        assert isinstance(value, torch.Tensor)
        assert value.dtype == torch.float64 or not value.is_floating_point()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"window": 0}, "window must be an integer of at least 1, got 0"),
        ({"window": 2.5}, "window must be an integer of at least 1, got 2.5"),
        ({"window": True}, "window must be an integer of at least 1, got True"),
        ({"mean": math.nan}, "mean must be a number, got nan"),
        ({"mean": "low"}, "mean must be a number, got 'low'"),
        ({"variance": 0}, "variance must be above 0, got 0"),
    ],
)
def test_invalid_settings_of_plateau(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Plateau(**{"window": 5, "mean": 1, "variance": 1} | arguments)
