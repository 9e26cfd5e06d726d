"""HOW to protect what was learned: regularization by the importance of parameters.

Every parameter has an importance, estimated at each consolidation and accumulated over all of them,
and an anchor, its value at the last consolidation. A penalty keeps important parameters near it.
"""

from taskfree.how.mas import MAS
from taskfree.how.regularizer import Regularizer

__all__ = ["MAS", "Regularizer"]
