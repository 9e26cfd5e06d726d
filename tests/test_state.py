import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from taskfree.state import nest, pack, part, unpack

LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5),
    st.lists(st.floats(width=32, allow_nan=False), max_size=3).map(torch.tensor),
)  # fmt: skip
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(st.integers(0, 99), st.text("abc", min_size=1, max_size=3)), inner, max_size=3),
    ),
    max_leaves=12,
)  # fmt: skip


def equal(a, b):
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    return type(a) is type(b) and a == b


@given(TREES)
def test_any_tree_comes_back(tree):
    flat = pack(tree)
    assert all(isinstance(value, torch.Tensor) for value in flat.values())
    assert equal(unpack(flat), tree)


@given(TREES)
def test_parts_are_told_apart(tree):
    flat = pack(tree)
    both = nest("left", flat) | nest("left.right", flat) | nest("right", flat)
    assert equal(unpack(part("right", both)), tree)


def test_numbers_that_json_cannot_write_come_back_too():
    values = unpack(pack([math.nan, math.inf, 0.1 + 0.2, 2**70]))
    assert math.isnan(values[0])
    assert values[1:] == [math.inf, 0.1 + 0.2, 2**70]


def test_names_that_collide_are_refused():
    with pytest.raises(ValueError, match=r"both be named 'a\.b'"):
        pack({"a.b": torch.zeros(1), "a": {"b": torch.zeros(1)}})
    with pytest.raises(ValueError, match="both be named 'layout'"):
        pack({"layout": torch.zeros(1)})


def test_what_cannot_be_saved_is_named():
    with pytest.raises(TypeError, match=r"the state at 'a\.0' is a set"):
        pack({"a": [set()]})
    with pytest.raises(TypeError, match="keys that are neither str nor int"):
        pack({(1, 2): 3})
