"""Triggers that follow a schedule instead of the loss."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from losses import decisions
from same import assert_same, snapshot
from taskfree.when import At, Every, Never

TRIGGERS = {"at": lambda: At([3, 20]), "every": lambda: Every(4), "never": Never}


def test_at_consolidates_at_its_steps():
    assert decisions(At([2, 5]), [1.0] * 6) == [None, "plateau", None, None, "plateau", None]


def test_every_consolidates_every_n_steps():
    assert decisions(Every(2), [1.0] * 5) == [None, "plateau", None, "plateau", None]
    assert decisions(Every(1), [1.0] * 2) == ["plateau"] * 2


@given(st.lists(st.floats(0, 10), max_size=60))
def test_never_never_consolidates(losses):
    trigger = Never()
    assert decisions(trigger, losses) == [None] * len(losses)
    assert not trigger.armed


def test_schedules_explain_each_decision():
    trigger = At([2])
    assert trigger.explain(trigger.update(1.0)).text == "time step 1 is not scheduled"
    assert trigger.explain(trigger.update(1.0)).text == "time step 2 is scheduled"
    trigger = Every(2)
    assert trigger.explain(trigger.update(1.0)).text == "1 of 2 time steps have passed"
    assert trigger.explain(trigger.update(1.0)).text == "2 of 2 time steps have passed"
    for trigger in (At([2]), Every(2), Never()):
        reason = trigger.explain(None)
        assert math.isnan(reason.variance)
        assert reason.thresholds == {}
        assert reason.text


@given(st.integers(0, 60), st.integers(0, 60), st.sampled_from(list(TRIGGERS)))
def test_a_loaded_schedule_continues_alike(steps, cut, kind):
    whole, first, second = (TRIGGERS[kind]() for _ in range(3))
    losses = [1.0] * steps
    expected = decisions(whole, losses)
    started = decisions(first, losses[:cut])
    second.load_state_dict(snapshot(first))
    assert started + decisions(second, losses[cut:]) == expected
    assert_same(snapshot(second), snapshot(whole))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: At([0]), "steps must be an integer of at least 1, got 0"),
        (lambda: At([2, 1.5]), "steps must be an integer of at least 1, got 1.5"),
        (lambda: Every(0), "n must be an integer of at least 1, got 0"),
    ],
)
def test_invalid_settings_of_schedules(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()
