import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from same import assert_same, snapshot
from taskfree.when import Every, Never, Plateau, RelativePlateau

LOSSES = st.lists(st.floats(0, 10), max_size=60)


def decisions(trigger, losses):
    return [trigger.update(loss) for loss in losses]


def literal(losses, size, mean_threshold, variance_threshold):
    """The design's words, as a function of the whole history."""
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
def test_plateau_is_the_designs_words(losses, size):
    expected = literal(losses, size, 3, 2)
    assert decisions(Plateau(window=size, mean=3, variance=2), losses) == expected


def test_a_partly_filled_window_is_not_judged():
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
    assert decisions(trigger, [0.5]) == ["plateau"], "the window is not emptied by a peak"


def test_thresholds_are_strict():
    assert decisions(Plateau(window=1, mean=1, variance=1), [1.0]) == [None]
    assert decisions(Plateau(window=2, mean=9, variance=1), [0.0, 2.0]) == [None, None]


@given(st.lists(st.floats(0.01, 10), max_size=80), st.sampled_from([1e-3, 0.25, 8.0, 1e4]))
def test_relative_plateau_has_no_scale(losses, scale):
    # Powers of two scale exactly; the others may round, so losses are kept to a few bits.
    losses = [round(loss * 16) / 16 for loss in losses]
    scale = 2.0 ** round(math.log2(scale))
    plain = decisions(RelativePlateau(), losses)
    assert decisions(RelativePlateau(), [loss * scale for loss in losses]) == plain


def test_relative_plateau_is_measured_from_the_height_since_the_peak():
    trigger = RelativePlateau(window=1, fall=0.5, ripple=1)
    assert decisions(trigger, [8.0, 5.0, 3.9]) == [None, None, "plateau"]
    assert decisions(trigger, [4.0, 2.1]) == ["peak", None], "2.1 is not below half of 4"
    assert decisions(trigger, [1.9]) == ["plateau"]


@given(LOSSES, st.integers(0, 60), st.sampled_from(["plateau", "relative", "every", "never"]))
def test_a_loaded_trigger_continues_alike(losses, cut, kind):
    make = {
        "plateau": lambda: Plateau(window=3, mean=3, variance=2),
        "relative": lambda: RelativePlateau(window=3),
        "every": lambda: Every(4),
        "never": Never,
    }[kind]
    whole, first, second = make(), make(), make()
    expected = decisions(whole, losses)
    begun = decisions(first, losses[:cut])
    second.load_state_dict(snapshot(first))
    assert begun + decisions(second, losses[cut:]) == expected
    assert_same(snapshot(second), snapshot(whole))


def test_a_window_that_does_not_fit_is_refused_and_nothing_changes():
    saved = Plateau(window=9, mean=1, variance=1)
    decisions(saved, [5.0] * 9)
    trigger = Plateau(window=3, mean=1, variance=1)
    before = snapshot(trigger)
    with pytest.raises(ValueError, match="holds 9 losses and this trigger's 3"):
        trigger.load_state_dict(saved.state_dict())
    assert_same(snapshot(trigger), before)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Plateau(window=0, mean=1, variance=1),
            "window must be a whole number of at least 1",
        ),
        (lambda: Plateau(window=2.5, mean=1, variance=1), "window must be a whole number"),
        (lambda: Plateau(window=True, mean=1, variance=1), "window must be a whole number"),
        (lambda: Plateau(window=5, mean=math.nan, variance=1), "mean must be a number, got nan"),
        (lambda: Plateau(window=5, mean="low", variance=1), "mean must be a number, got 'low'"),
        (lambda: Plateau(window=5, mean=1, variance=0), "variance must be above 0, got 0"),
        (lambda: RelativePlateau(fall=0), "fall must be above 0"),
        (lambda: RelativePlateau(ripple=-1), "ripple must be above 0"),
        (lambda: Every(0), "n must be a whole number of at least 1"),
    ],
)
def test_settings_that_make_no_sense(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_state_is_flat_tensors():
    for name, value in Plateau(window=5, mean=1, variance=1).state_dict().items():
        assert isinstance(name, str)
        assert isinstance(value, torch.Tensor)
