"""A uniform sample of the stream."""

from __future__ import annotations

import torch
from torch import Tensor

from taskfree.which.drawn import DrawnRows


class Reservoir(DrawnRows):
    """Reservoir sampling: a uniform random sample of the whole stream so far.

    Every sample draws a random number once, and the largest numbers stay. Each gradient step
    replays a few of the held samples, drawn anew: with a plain replay loss this is *experience
    replay* (ER). The buffer has its own random generator, so its draws neither disturb nor follow
    the model's.

    Vitter, *Random Sampling with a Reservoir*, ACM TOMS 1985. Chaudhry et al., *On Tiny Episodic
    Memories in Continual Learning*, 2019.

    Args:
        capacity: how many samples it holds at most.
        replay: how many of them each gradient step replays; None for twice the number of new
            samples. All are replayed while it holds no more than that.
        seed: of the buffer's random generator.

    >>> buffer = Reservoir(50, replay=4, seed=1)
    >>> for step in range(3):
    ...     x, y = buffer.join(torch.arange(100.0), torch.zeros(100))
    ...     buffer.update(torch.zeros(len(x)))
    >>> len(buffer), len(x)
    (50, 104)
    """

    def _priorities(self, losses: Tensor, new: int) -> Tensor:
        del losses
        drawn = self._random(lambda g: torch.rand(new, dtype=torch.float64, generator=g))
        return torch.cat([self._priority, drawn]) if len(self) else drawn
