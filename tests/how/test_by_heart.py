from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskfree.how.by_heart import MOST, firmness, share

LOSSES = st.floats(1e-6, 1e6)


@given(LOSSES, LOSSES, LOSSES, st.floats(1e-3, 1e3))
def test_only_ratios_of_losses_count(recent, usual, replayed, scale):
    found = firmness(recent, usual, replayed)
    assert firmness(scale * recent, scale * usual, scale * replayed) == pytest.approx(found)
    assert 0 < found <= MOST


@given(LOSSES, LOSSES, LOSSES, st.floats(1, 100))
def test_harder_as_the_buffer_is_learned_softer_while_something_changes(
    recent, usual, replayed, more
):
    found = firmness(recent, usual, replayed)
    assert firmness(recent, usual, replayed / more) >= found
    assert firmness(recent * more, usual, replayed) <= found


@pytest.mark.parametrize("losses", [(nan, nan, nan), (1.0, 1.0, nan), (1.0, -1.0, 1.0), (0, 0, 0)])
def test_without_a_ratio_nothing_is_changed(losses):
    assert firmness(*losses) == 1.0


@pytest.mark.parametrize("replayed", [nan, 0.0, -1.0])
def test_what_is_not_replayed_is_held_whole(replayed):
    assert share(1.0, replayed) == 1.0
    assert share(inf, 1.0) == 1.0
