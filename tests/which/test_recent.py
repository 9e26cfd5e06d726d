from hypothesis import given
from hypothesis import strategies as st

from samples import STEPS, offer
from taskfree.which import Recent


@given(STEPS, st.integers(1, 12))
def test_recent_is_first_in_first_out(steps, capacity):
    buffer, seen = Recent(capacity), 0
    for step, _ in zip(steps, offer(buffer, steps), strict=True):
        seen += len(step)
        assert sorted(buffer.inputs.tolist()) == list(range(max(0, seen - capacity), seen))
