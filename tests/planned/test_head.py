"""`Head` is a sequence of `HotKey`, whatever is asked of it: the same as a tuple of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from keyspread.planned.plan import Head, HotKey

PIECES = st.dictionaries(st.integers(0, 9), st.integers(1, 2**40), min_size=1, max_size=5)
KEYS = st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), PIECES), max_size=6).map(
    lambda keys: tuple(HotKey(*naive.cut_by_weight(key, pieces)) for key, pieces in keys)
)
EDGES = st.one_of(st.none(), st.integers(-8, 8))


@given(KEYS, st.slices(6), EDGES, EDGES, st.sampled_from([None, 1, 2, 3, -1, -2]))
def test_it_is_the_sequence_of_its_keys(keys, some, begin, end, step):
    head = Head.of(keys)
    assert len(head) == len(keys)
    assert tuple(head) == keys
    assert [head[at] for at in range(-len(keys), len(keys))] == [*keys, *keys]
    assert head[some] == keys[some]
    assert head[begin:end:step] == keys[begin:end:step]
    assert head.sizes.tolist() == [len(key.workers) for key in keys]
    assert head.messages.tolist() == [key.messages for key in keys] == [sum(key.weights) for key in keys]
    assert repr(head) == repr(keys)
    with pytest.raises(IndexError):
        head[len(keys)]


@given(KEYS, KEYS)
def test_it_is_equal_to_the_same_keys_only(keys, others):
    assert (Head.of(keys) == Head.of(others)) is (keys == others)
    assert (Head.of(keys) == list(others)) is (keys == others)
    assert Head.of(keys) == keys
    assert hash(Head.of(keys)) == hash(Head.of(list(keys)))
    if keys:
        assert Head.of(keys) != keys[:-1]
        assert Head.of(keys[:-1]) != keys
        assert Head.of(keys) != np.arange(len(keys))
