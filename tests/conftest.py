import signal

import pytest
import torch
import tyro
from hypothesis import settings

from examples import examples

assert tyro  # it cannot be imported any more once a doctest has shown a list

settings.register_profile("tests", examples(100))
settings.load_profile("tests")

# A shell script that starts the tests with `&` makes them ignore Ctrl-C, which the processes that
# they start would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _one_thread_and_a_fixed_seed():
    """Two threads on a busy machine are slower than one, and sums depend on their number."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
