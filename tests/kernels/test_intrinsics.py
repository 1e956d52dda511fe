"""Machine instructions, called from compiled code as kernels do."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from keyspread.kernels.compilation import part, prefetch, trailing_zeros


@part
def zeros_of(x):
    return trailing_zeros(x)


@part
def sum_with_prefetch(array):
    total = 0
    for i in range(array.size):
        prefetch(array, np.int64(i + 8))  # beyond the end too: a prefetch never faults
        total += array[i]
    return total


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 2**64 - 1))
def test_trailing_zeros(x):
    assert zeros_of(np.uint64(x)) == naive.trailing_zeros(x)


def test_trailing_zeros_of_every_single_bit():
    assert [zeros_of(np.uint64(1 << bit)) for bit in range(64)] == list(range(64))


def test_a_prefetch_changes_nothing():
    for dtype in (np.int32, np.int64, np.uint64):
        array = np.arange(1000, dtype=dtype)
        assert sum_with_prefetch(array) == 499_500
        assert (array == np.arange(1000)).all()
