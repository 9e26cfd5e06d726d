import torch
from hypothesis import given
from hypothesis import strategies as st

from taskfree.which.balance import share_equally
from taskfree.which.ranking import Ranking

SAMPLES = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 10**6)),
    min_size=1, max_size=30, unique_by=lambda sample: sample[1],
)  # fmt: skip


def last_of(samples):
    """The one that goes first if all are sorted by label and priority."""
    labels, priorities = (torch.tensor(column) for column in zip(*samples, strict=True))
    return int(share_equally(priorities.argsort(), labels)[0])


@given(SAMPLES, st.tuples(st.integers(0, 5), st.floats(-1, 10**6 + 1)))
def test_a_new_sample_stays_unless_it_would_be_the_next_to_go(samples, new):
    ranking = Ranking(*zip(*samples, strict=True))
    stays = ranking.takes(*new)
    ranking.add(*new, row=len(samples))
    assert stays == (last_of([*samples, new]) != len(samples))
    assert stays == (ranking.remove_last() != len(samples))


@given(SAMPLES)
def test_samples_go_as_if_they_were_sorted(samples):
    ranking, rows = Ranking(*zip(*samples, strict=True)), list(range(len(samples)))
    while rows:
        goes = rows[last_of([samples[row] for row in rows])]
        assert ranking.remove_last() == goes
        rows.remove(goes)


def test_a_sample_can_be_given_another_row():
    ranking = Ranking("ab", [0.5, 0.1])
    assert ranking.rank("b", 0.1, 1) == 0
    ranking.move("b", 0.1, 1, to=7)
    assert [ranking.remove_last(), ranking.remove_last()] == [7, 0]
