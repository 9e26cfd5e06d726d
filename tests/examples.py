"""How many examples property tests try: `TASKFREE_EXAMPLES=100` multiplies them by a hundred."""

import os

from hypothesis import settings

FACTOR = int(os.environ.get("TASKFREE_EXAMPLES", "1"))


def examples(number):
    """Try so many, for tests that are slower than most or have less to vary."""
    return settings(max_examples=number * FACTOR, deadline=None)
