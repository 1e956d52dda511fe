"""Cuts of hot keys: equal to the plain rules, for any pieces."""

from itertools import pairwise

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

import naive
from keyspread.kernels import planned_routing as cuts


def in_a_row(lists):
    """Return where each list begins, and all of them as one array."""
    return np.cumsum([0, *map(len, lists)]), np.array([one for values in lists for one in values], np.int64)


PIECES = st.lists(st.lists(st.one_of(st.integers(1, 9), st.integers(1, 2**58)), min_size=1, max_size=6), max_size=5)


@example([[2**58, 2**58], [2**40] * 8, [3 * 2**50, 2**50]])  # too large to multiply, and cut exactly at a slot
@given(PIECES)
def test_cuts_by_weight(keys):
    first, weights = in_a_row(keys)
    ends = np.zeros(weights.size, np.int64)
    cuts.cut_by_weight(first, weights, ends)
    assert ends.tolist() == [end for pieces in keys for end in naive.ends_by_weight(pieces)]


@given(
    st.lists(
        st.lists(
            st.tuples(st.integers(0, naive.SLOTS - 1), st.integers(0, 9)), min_size=1, unique_by=lambda one: one[0]
        ),
        max_size=4,
    ),
    st.booleans(),
    st.data(),
)
def test_cuts_by_messages(messages, weighted, data):
    messages = [sorted((slot, weight if weighted else 1) for slot, weight in own) for own in messages]
    pieces = []
    for own in messages:  # pieces that add up to the weight of the messages
        whole = sum(weight for _, weight in own)
        inner = data.draw(st.lists(st.integers(1, max(1, whole - 1)), unique=True, max_size=4)) if whole > 1 else []
        edges = [0, *sorted(inner), whole]
        pieces.append([end - begin for begin, end in pairwise(edges)])
    first, weights = in_a_row(pieces)
    first_message, slots = in_a_row([[slot for slot, _ in own] for own in messages])
    _, of_messages = in_a_row([[weight for _, weight in own] for own in messages])
    ends = np.zeros(weights.size, np.int64)
    if weighted:
        cuts.cut_by_message_weights(first, weights, first_message, slots, of_messages, ends)
        expected = [naive.ends_by_messages(own, sent) for own, sent in zip(pieces, messages, strict=True)]
    else:
        cuts.cut_by_messages(first, weights, first_message, slots, ends)
        expected = [
            [*(sent[sum(own[: piece + 1])][0] for piece in range(len(own) - 1)), naive.SLOTS]
            for own, sent in zip(pieces, messages, strict=True)
        ]
    assert ends.tolist() == [end for own in expected for end in own]


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(1, 500), min_size=1, max_size=5),
            st.lists(st.one_of(st.integers(0, 1), st.integers(0, 300)), min_size=1, max_size=9),
        ),
        max_size=4,
    )
)
def test_cuts_by_cells(keys):
    first, weights = in_a_row([pieces for pieces, _ in keys])
    first_cell, counted = in_a_row([cells for _, cells in keys])
    ends = np.zeros(weights.size, np.int64)
    cuts.cut_by_cells(first, weights, first_cell, counted, ends)
    assert ends.tolist() == [end for pieces, cells in keys for end in naive.ends_by_cells(pieces, cells)]


@given(
    st.lists(
        st.tuples(
            st.lists(st.one_of(st.integers(0, naive.SLOTS), st.sampled_from([0, 2**28, 2**30])), max_size=6),
            st.integers(0, 6),
        ),
        max_size=4,
    )
)
def test_cells_of_the_pieces(keys):
    keys = [([*sorted(ends), naive.SLOTS], bits) for ends, bits in keys]
    first, ends = in_a_row([own for own, _ in keys])
    bits = np.array([own for _, own in keys], np.int64)
    first_cell = np.concatenate([[0], np.cumsum(1 << bits)])
    cells = np.zeros(first_cell[-1], np.int32)
    cuts.fill_cells(first, ends, first_cell, 31 - bits, cells)
    expected = [naive.cells_of(own, few, begin) for (own, few), begin in zip(keys, first.tolist(), strict=False)]
    assert cells.tolist() == [cell for own in expected for cell in own]
