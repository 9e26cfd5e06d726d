"""Equality of states, bit for bit."""

import torch


def snapshot(holder):
    """A copy of a state_dict."""
    return {name: value.clone() for name, value in holder.state_dict().items()}


def assert_same(first, second):
    assert first.keys() == second.keys()
    for name in first:
        a, b = first[name], second[name]
        assert a.dtype == b.dtype, name
        assert a.shape == b.shape, name
        bits = [one.detach().contiguous().flatten().view(torch.uint8) for one in (a, b)]
        assert torch.equal(*bits), f"{name} differs"
