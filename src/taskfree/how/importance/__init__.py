"""The importance of every parameter: how much the outputs change with it, exactly, per sample.

Omega* = 1/N sum_k |d f(x_k) / d theta|, where f is the squared norm (or the norm) of the output for
ONE input x_k. The absolute value is taken per sample, before the mean: in the gradient of a batch
the samples would cancel, and much of the importance would be lost.
"""

from taskfree.how.importance.exact import estimate
from taskfree.how.importance.norms import Output

__all__ = ["Output", "estimate"]
