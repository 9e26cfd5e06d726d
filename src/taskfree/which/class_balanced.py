"""A random sample of the stream with equally many samples of every label."""

from __future__ import annotations

from taskfree.which.reservoir import Reservoir


class ClassBalanced(Reservoir):
    """Reservoir sampling within each label; the labels seen so far share the capacity equally.

    What one label cannot fill goes to the others. Use it where labels are rare, or where fewer
    than about five samples per label fit: a uniform sample then misses some of them. Targets must
    be one label per sample.

    Chrysakis and Moens, *Online Continual Learning from Imbalanced Data*, ICML 2020.

    Args:
        capacity: how many samples it holds at most.
        replay: how many of them each gradient step replays; None for twice the number of new
            samples. All are replayed while it holds no more than that.
        seed: of the buffer's random generator.

    >>> import torch
    >>> buffer = ClassBalanced(10)
    >>> labels = torch.tensor([0] * 95 + [1] * 5)
    >>> x, y = buffer.join(torch.arange(100.0), labels)
    >>> buffer.update(torch.zeros(100))
    >>> buffer.targets.bincount()
    tensor([5, 5])
    """

    def __init__(self, capacity: int, replay: int | None = None, seed: int = 0) -> None:
        super().__init__(capacity, replay, seed, balanced=True)
