"""A random sample of the stream with equally many samples of every label."""

from __future__ import annotations

from torch import Tensor

from taskfree._core.batch import Batch
from taskfree.which.balance import check_labels, share_equally
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

    balanced = True

    def check(self, inputs: Batch, targets: Batch) -> None:
        """Raise, and change nothing, if such samples cannot be held beside the present ones."""
        check_labels(targets, type(self).__name__)
        super().check(inputs, targets)

    def _any_enters(self, priority: Tensor) -> bool:
        del priority
        return True

    def _best_last(self, priority: Tensor) -> Tensor:
        assert isinstance(self._targets, Tensor)
        return share_equally(super()._best_last(priority), self._targets[: len(priority)])
