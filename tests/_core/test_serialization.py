import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from taskfree._core.serialization import (
    add_prefix,
    load_fields,
    pack,
    save_fields,
    take_prefix,
    unpack,
)

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
def test_any_tree_survives_packing(tree):
    flat = pack(tree)
    assert all(isinstance(value, torch.Tensor) for value in flat.values())
    assert equal(unpack(flat), tree)


@given(TREES)
def test_prefixes_keep_components_apart(tree):
    flat = pack(tree)
    both = add_prefix("left", flat) | add_prefix("left.right", flat) | add_prefix("right", flat)
    assert equal(unpack(take_prefix("right", both)), tree)


def test_numbers_outside_of_json_survive_packing():
    values = unpack(pack([math.nan, math.inf, 0.1 + 0.2, 2**70]))
    assert math.isnan(values[0])
    assert values[1:] == [math.inf, 0.1 + 0.2, 2**70]


def test_colliding_names_are_refused():
    with pytest.raises(ValueError, match=r"both be named 'a\.b'"):
        pack({"a.b": torch.zeros(1), "a": {"b": torch.zeros(1)}})
    with pytest.raises(ValueError, match="both be named 'layout'"):
        pack({"layout": torch.zeros(1)})


def test_what_cannot_be_saved_is_refused():
    with pytest.raises(TypeError, match=r"the state at 'a\.0' is a set"):
        pack({"a": [set()]})
    with pytest.raises(TypeError, match="keys that are neither str nor int"):
        pack({(1, 2): 3})


def test_a_layout_of_an_unknown_kind_is_refused():
    layout = torch.tensor(list(b'["code", []]'), dtype=torch.uint8)
    with pytest.raises(ValueError, match="the layout names a 'code'"):
        unpack({"layout": layout})


class Fields:
    """Attributes of every kind that can be saved."""

    def __init__(self, number=1.5, window=(0.1, 1 / 3), count=7, ready=True):
        self.number, self.window = number, window
        self._count, self._ready = count, ready


NAMES = ("number", "window", "_count", "_ready")


@given(
    st.floats(), st.lists(st.floats(), max_size=4).map(tuple), st.integers(-(2**60), 2**60),
    st.booleans(),
)  # fmt: skip
def test_fields_survive_saving_bit_for_bit(number, window, count, ready):
    owner, loaded = Fields(number, window, count, ready), Fields()
    state = save_fields(owner, NAMES)
    assert list(state) == ["number", "window", "count", "ready"]
    assert all(isinstance(value, torch.Tensor) for value in state.values())
    load_fields(loaded, NAMES, state)
    assert repr(vars(loaded)) == repr(vars(owner))  # repr: nan is not equal to itself
    assert {key: type(value) for key, value in vars(loaded).items()} == {
        "number": float, "window": tuple, "_count": int, "_ready": bool,
    }  # fmt: skip


def test_a_missing_field_sets_none_of_them():
    owner = Fields()
    state = save_fields(Fields(2.0, (), 0, False), NAMES)
    del state["ready"]
    with pytest.raises(KeyError, match="ready"):
        load_fields(owner, NAMES, state)
    assert vars(owner) == vars(Fields())


def test_fields_do_not_share_memory_with_a_state():
    owner = Fields()
    state = save_fields(owner, NAMES)
    state["window"].zero_()
    assert owner.window == (0.1, 1 / 3)
    load_fields(owner, NAMES, state)
    state["window"].fill_(7)
    assert owner.window == (0.0, 0.0)
