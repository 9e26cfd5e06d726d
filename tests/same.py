"""Equality of states, bit for bit."""


def snapshot(holder):
    """A copy of a state_dict."""
    return {name: value.clone() for name, value in holder.state_dict().items()}


def assert_same(first, second):
    assert first.keys() == second.keys()
    for name in first:
        a, b = first[name], second[name]
        assert a.dtype == b.dtype, name
        assert a.shape == b.shape, name
        equal = a.eq(b) | (a.ne(a) & b.ne(b))
        assert bool(equal.all()), f"{name} differs"
