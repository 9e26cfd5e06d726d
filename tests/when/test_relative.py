import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from losses import decisions
from same import assert_same, snapshot
from taskfree.when import RelativePlateau


@given(st.lists(st.floats(0.01, 10), max_size=80), st.sampled_from([1e-3, 0.25, 8.0, 1e4]))
def test_relative_plateau_has_no_scale(losses, scale):
    # Powers of two scale exactly; the others may round, so losses have only a few bits.
    losses = [round(loss * 16) / 16 for loss in losses]
    scale = 2.0 ** round(math.log2(scale))
    plain = decisions(RelativePlateau(), losses)
    assert decisions(RelativePlateau(), [loss * scale for loss in losses]) == plain


def test_relative_plateau_is_measured_from_the_height_since_the_peak():
    trigger = RelativePlateau(window=1, fall=0.5, ripple=1)
    assert decisions(trigger, [8.0, 5.0, 3.9]) == [None, None, "plateau"]
    assert decisions(trigger, [4.0, 2.1]) == ["peak", None], "2.1 is not below half of 4"
    assert decisions(trigger, [1.9]) == ["plateau"]


def test_the_thresholds_are_fractions_of_the_height():
    trigger = RelativePlateau(window=2, fall=0.25, ripple=0.5)
    decisions(trigger, [8.0, 8.0, 4.0])
    reason = trigger.explain(None)
    assert reason.thresholds == {"mean": 2.0, "variance": 16.0}
    assert reason.text.endswith("; it came down from 8")
    assert decisions(trigger, [0.0, 0.0])[-1] == "plateau"
    assert trigger.explain("plateau").text.endswith("; it came down from 8")
    decisions(trigger, [0.0, 0.0])
    assert "came down" not in trigger.explain(None).text


def test_the_default_settings_of_relative_plateau():
    trigger = RelativePlateau()
    assert (trigger.size, trigger.fall, trigger.ripple) == (5, 0.2, 0.3)


@given(st.lists(st.floats(0, 10), max_size=60), st.integers(0, 60))
def test_a_loaded_relative_plateau_continues_alike(losses, cut):
    whole, first, second = (RelativePlateau(window=3) for _ in range(3))
    expected = decisions(whole, losses)
    started = decisions(first, losses[:cut])
    second.load_state_dict(snapshot(first))
    assert started + decisions(second, losses[cut:]) == expected
    assert_same(snapshot(second), snapshot(whole))


@pytest.mark.parametrize("missing", ["height", "window_mean"])
def test_an_incomplete_state_is_refused_and_nothing_changes(missing):
    saved, trigger = RelativePlateau(window=2), RelativePlateau(window=2)
    decisions(saved, [8.0, 8.0, 4.0])
    before, state = snapshot(trigger), snapshot(saved)
    del state[missing]
    with pytest.raises(KeyError, match=missing):
        trigger.load_state_dict(state)
    assert_same(snapshot(trigger), before)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"window": 0}, "window must be an integer of at least 1, got 0"),
        ({"fall": 0}, "fall must be above 0, got 0"),
        ({"ripple": -1}, "ripple must be above 0, got -1"),
    ],
)
def test_invalid_settings_of_relative_plateau(arguments, message):
    with pytest.raises(ValueError, match=message):
        RelativePlateau(**arguments)
