import pytest
import torch

from taskfree.paper.streams import text


@pytest.mark.usefixtures("texts")
def test_topics_come_in_pairs_and_test_texts_are_not_learned():
    stream = text.topics(0, steps=30)
    pairs = [set(y.tolist()) for _, y in stream.tests]
    assert [len(pair) for pair in pairs] == [2] * 5
    for environment, (_, y) in zip(stream.environments, stream.batches, strict=True):
        assert set(y.tolist()) <= pairs[environment]
    learned = {tuple(row) for x, _ in stream.batches for row in x.tolist()}
    assert not learned & {tuple(row) for x, _ in stream.tests for row in x.tolist()}


def test_texts_with_the_same_words_are_near():
    a, b, c = map(text.hashed, ("The sea is wide.", "the WIDE, wide sea", "compile the kernel"))
    assert a @ b > 2 * (a @ c) > 0
    torch.testing.assert_close(a.norm(), torch.tensor(1.0))


def test_missing_texts_are_named(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"computers, .* install Debian's packages fortunes"
    ):
        text.find(tmp_path)
