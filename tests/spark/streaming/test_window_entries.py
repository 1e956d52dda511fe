"""The state of a window in chunks: what is read back equals a dict, whatever the chunks, hashes and batches are."""

from collections import Counter
from itertools import pairwise
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from keyspread.spark._streaming import chunks as window_entries
from keyspread.spark._streaming.blobs import StateError, from_blob, is_index, to_blob
from keyspread.spark._streaming.chunks import (
    WindowEntries,
    append_part,
    open_windows,
    remove_sorted,
    take_parts,
    update_sorted,
)

WINDOW = (1_000, 5_000)


class Blobs(dict):
    """Stands in for Spark's map state, and notes which keys were read and written."""

    def __init__(self):
        self.read, self.written = [], []

    def getValue(self, key):  # noqa: N802
        self.read.append(key)
        return self.get(key)

    def updateValue(self, key, value):  # noqa: N802
        self.written.append(key)
        self[key] = value

    def removeKey(self, key):  # noqa: N802
        del self[key]


def fold(table):
    """Sum by key, in order of appearance."""
    totals, hashes = Counter(), {}
    for row in table.to_pylist():
        totals[row["key"]] += row["n"]
        hashes[row["key"]] = row["hash"]
    return table_of([(hashes[key], key, n) for key, n in totals.items()])


def table_of(rows):
    columns = list(zip(*rows, strict=True)) if rows else [[], [], []]
    return pa.table([pa.array(one, pa.int64()) for one in columns], names=["hash", "key", "n"])


# Few hashes, so that many keys have the same one; the least and the largest, which are bounds.
HASHES = [-(2**63), -5, 0, 1, 2, 3, 4, 5, 6, 7, 2**63 - 1]
BATCHES = st.lists(st.dictionaries(st.integers(0, 60), st.integers(1, 9), min_size=1, max_size=12), max_size=8)
SIZES = st.sampled_from([1, 24, 48, 100, 240, window_entries.CHUNK_BYTES])


def new_states(batch):
    return table_of([(HASHES[key % 16 % len(HASHES)], key, n) for key, n in batch.items()])


def entries(blobs):
    return WindowEntries(blobs, WINDOW)


@given(batches=BATCHES, size=SIZES, old=st.booleans())
@settings(deadline=None)
def test_update_returns_the_totals_of_the_new_keys(batches, size, old):
    """With `old`, the state begins as one blob that is not sorted, as an earlier version wrote it."""
    blobs, totals = Blobs(), Counter()
    if old and batches:
        first = batches.pop(0)
        totals.update(first)
        blobs[WINDOW] = (to_blob(new_states(first)),)
    with mock.patch.object(window_entries, "CHUNK_BYTES", size):
        for batch in batches:
            totals.update(batch)
            changed = update_sorted(entries(blobs), new_states(batch), fold)
            assert {row["key"]: row["n"] for row in changed.to_pylist()} == {key: totals[key] for key in batch}
            assert changed.num_rows == len(batch)
        if batches:
            everything = update_sorted(entries(blobs), new_states(dict.fromkeys(totals, 0)), fold)
            assert {row["key"]: row["n"] for row in everything.to_pylist()} == totals
            remove_sorted(entries(blobs))
            assert not blobs


def test_a_batch_reads_and_writes_only_the_chunks_that_it_touches():
    blobs = Blobs()
    with mock.patch.object(window_entries, "CHUNK_BYTES", 2_400):  # 100 rows of 24 bytes
        update_sorted(entries(blobs), table_of([(at, at, 1) for at in range(1_000)]), fold)
        assert is_index(blobs[WINDOW][0])
        assert sorted(blobs) == sorted([WINDOW, *((1_000, 999 - number) for number in range(10))])
        blobs.read, blobs.written = [], []
        changed = update_sorted(entries(blobs), table_of([(905, 905, 1), (310, 310, 5), (10**6, 10**6, 1)]), fold)
        assert changed.to_pylist() == [
            {"hash": 310, "key": 310, "n": 6},
            {"hash": 905, "key": 905, "n": 2},
            {"hash": 10**6, "key": 10**6, "n": 1},
        ]
        touched = [(1_000, 999 - number) for number in (3, 9)]
        assert (blobs.read, blobs.written) == ([WINDOW, *touched], touched)
        # A chunk that has doubled is cut, but not within a hash; the others stay as they are.
        blobs.read, blobs.written = [], []
        update_sorted(entries(blobs), table_of([(450, 10_000 + at, 1) for at in range(150)]), fold)
        assert blobs.written == [(1_000, 999 - 4), (1_000, 999 - 10), WINDOW]


@given(batches=BATCHES, size=SIZES)
@settings(deadline=None)
def test_a_log_of_parts_returns_one_state_per_key(batches, size):
    blobs, totals = Blobs(), Counter()
    with mock.patch.object(window_entries, "CHUNK_BYTES", size):
        for batch in batches:
            totals.update(batch)
            append_part(entries(blobs), new_states(batch), fold)
            if is_index(blobs[WINDOW][0]):
                sizes = [from_blob(blobs[1_000, 999 - number][0]).num_rows for number in range(len(blobs) - 1)]
                assert all(first >= 2 * second for first, second in pairwise(sizes)), sizes
            assert open_windows(blobs) == [WINDOW]
        found = take_parts(entries(blobs), fold)
        assert not blobs
        assert ({} if found is None else {row["key"]: row["n"] for row in found.to_pylist()}) == totals
        assert found is None or found.num_rows == len(totals)


def test_a_small_batch_in_append_mode_reads_no_part():
    blobs = Blobs()
    with mock.patch.object(window_entries, "CHUNK_BYTES", 100):
        for many in (1_000, 10):
            append_part(entries(blobs), table_of([(at, at, 1) for at in range(many)]), fold)
        blobs.read, blobs.written = [], []
        append_part(entries(blobs), table_of([(5, 5, 1)]), fold)
        assert (blobs.read, blobs.written) == ([WINDOW], [(1_000, 997), WINDOW])


def test_wrong_entries_are_one_line():
    blobs = Blobs()
    with mock.patch.object(window_entries, "CHUNK_BYTES", 100):
        update_sorted(entries(blobs), table_of([(at, at, 1) for at in range(100)]), fold)
        one = table_of([(7, 7, 1)])
        lost = dict(blobs)
        for wrong, message in (
            (lambda: blobs.clear() or blobs.update({WINDOW: lost[WINDOW]}) or update_sorted(entries(blobs), one, fold),
             r"cannot be read \(chunk 1 of window \(1000, 5000\) is missing\): restore the checkpoint"),
        ):  # fmt: skip
            with pytest.raises(StateError, match=message) as caught:
                wrong()
            assert "\n" not in str(caught.value)
