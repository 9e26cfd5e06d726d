import queue

import pytest

from taskfree.tabular.batch_reader import BatchReader
from taskfree.tabular.sources import START, Row, Source


class Numbers(Source):
    """Rows of the numbers from a queue, or up to a limit; None in the queue ends it."""

    def __init__(self, limit=0):
        super().__init__("numbers")
        self.limit, self.live, self.feed = limit, limit == 0, queue.Queue()

    def rows(self, start=START):
        for number in iter(self.feed.get, None) if self.live else range(start[0], self.limit):
            yield Row(number + 1, [number], (number + 1, number + 1))

    def fingerprint(self, position):
        return str(position)


def values(rows):
    return [row.values[0] for row in rows]


def test_batches_of_a_file_are_full_but_for_the_last():
    reader = BatchReader(Numbers(7), (1, 1), patience=1)
    assert [values(reader.take(3)) for _ in range(3)] == [[1, 2, 3], [4, 5, 6], []]


@pytest.mark.parametrize("live", [False, True])
def test_rows_that_are_given_back_come_first(live):
    source = Numbers(0 if live else 6)
    for number in (*range(6), None):
        source.feed.put(number)
    reader = BatchReader(source, START, patience=600)
    reader.give_back(reader.take(4))
    assert [values(reader.take(3)) for _ in range(3)] == [[0, 1, 2], [3, 4, 5], []]


def test_a_live_feed_that_pauses_yields_what_has_come():
    source = Numbers()
    reader = BatchReader(source, START, patience=0.05)
    source.feed.put(0)
    found = reader.take(3)
    source.feed.put(1)
    found += reader.take(3)
    assert values(found) == [0, 1]


def test_a_live_feed_that_ends_has_ended_for_every_later_call():
    source = Numbers()
    source.feed.put(None)
    reader = BatchReader(source, START, patience=600)
    assert [reader.take(3) for _ in range(3)] == [[], [], []]


def test_a_reader_that_is_stopped_waits_no_longer():
    reader = BatchReader(Numbers(), START, patience=600)
    reader.stopped = True
    assert reader.take(3) == []
