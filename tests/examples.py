"""How many examples property tests try: `TASKFREE_EXAMPLES=100` multiplies it by 100."""

import os

from hypothesis import settings

FACTOR = int(os.environ.get("TASKFREE_EXAMPLES", "1"))


def examples(number):
    """Settings for a test that is slower than most, or has less to vary: try this many examples."""
    return settings(max_examples=number * FACTOR, deadline=None)
