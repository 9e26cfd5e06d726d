"""HOW to protect what was learned: regularization of parameters and of outputs.

`MAS` holds parameters: each has an importance, estimated at every consolidation and accumulated
over all of them, and an anchor, its value at the last one, near which a penalty keeps it.
`Teacher` holds outputs: replayed samples keep what the model said of them on average.
"""

from taskfree.how.mas import MAS
from taskfree.how.regularizer import Regularizer
from taskfree.how.teacher import Teacher

__all__ = ["MAS", "Regularizer", "Teacher"]
