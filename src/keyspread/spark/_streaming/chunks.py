"""The entries of one window in the map state of a partition: a root, and chunks with numbers if the state is large.

The root is the state itself, one blob of columns, as long as that is small. Otherwise it is an index of chunks, so that
a batch reads and writes what it touches. `sorted_chunks.py` and `part_log.py` decide what is in a chunk.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keyspread.spark._streaming.blobs import INDEX, StateError, from_blob, is_index, to_blob

Window = tuple[int, int]
"""Start and end in µs; both are 0 for running totals."""

CHUNK_BYTES = 1 << 20
"""The size of a chunk, before compression; `./dev bench state_cost` compares others."""


class WindowEntries:
    """Reads and writes the entries of one window; refuses damaged ones."""

    def __init__(self, blobs: Any, window: Window) -> None:
        self._blobs, self._window = blobs, window

    def root(self) -> tuple[pa.Table | None, pa.Table | None]:
        """Return the state, or the index of its chunks; neither if there is no entry."""
        found = self._blobs.getValue(self._window)
        if found is None:
            return None, None
        if is_index(found[0]):
            return None, from_blob(found[0], INDEX)
        return from_blob(found[0]), None

    def chunk(self, number: int) -> pa.Table:
        """Return a chunk that the index lists."""
        found = self._blobs.getValue(self._key(number))
        if found is None:
            raise StateError(
                f"the state in the checkpoint cannot be read (chunk {number} of window {self._window} is missing): "
                "restore the checkpoint from a copy, or start with a new one"
            )
        return from_blob(found[0])

    def write_root(self, state: pa.Table) -> None:
        """Make this table the whole state."""
        self._blobs.updateValue(self._window, (to_blob(state),))

    def write_index(self, index: pa.Table) -> None:
        """Make the chunks of this index the state."""
        self._blobs.updateValue(self._window, (to_blob(index, INDEX),))

    def write_chunk(self, number: int, states: pa.Table) -> None:
        """Write a chunk; it counts if the index lists it."""
        self._blobs.updateValue(self._key(number), (to_blob(states),))

    def remove_chunk(self, number: int) -> None:
        """Remove a chunk that the index does not list any more."""
        self._blobs.removeKey(self._key(number))

    def remove(self, chunks: int) -> None:
        """Remove the root and this many chunks."""
        self._blobs.removeKey(self._window)
        for number in range(chunks):
            self.remove_chunk(number)

    def _key(self, number: int) -> Window:
        # A window ends after it starts, so a key that ends before it starts is that of a chunk.
        start = self._window[0]
        return start, start - 1 - number


def open_windows(blobs: Any) -> list[Window]:
    """Return the windows that have a state."""
    keys = [(int(key[0]), int(key[1])) for key in blobs.keys()]  # noqa: SIM118
    return [(start, end) for start, end in keys if end > start]


# The state of a window in update mode: sorted by the hash of the key, and cut into chunks of neighbouring hashes.
#
# A batch reads the chunks that have the hashes of its keys, merges only those keys, and writes these chunks back. So
# its time depends on the keys of the batch, not on those of the state, once there are more chunks than keys in a batch.
# A state of less than two chunks is one blob. The index has a row per chunk: the lowest hash that belongs to it, and
# its number.


Fold = Callable[[pa.Table], pa.Table]
"""Returns one row for each key of a table, in order of appearance."""

_LEAST = np.iinfo(np.int64).min
_INDEX = pa.schema([("lowest", pa.int64()), ("number", pa.int64())])


def update_sorted(entries: WindowEntries, new: pa.Table, fold: Fold) -> pa.Table:
    """Merge new states, one per key, into those of a window; return the merged states of these keys."""
    new = _sorted(new)
    state, index = entries.root()
    if index is None:
        changed, updated = (new, new) if state is None else _merged(_sorted(state), new, fold)
        pieces = _cut(updated)
        if len(pieces) == 1:
            entries.write_root(updated)
            return changed
        lowest, numbers = np.array([_LEAST]), np.array([0])
        splits = [(0, pieces)]
    else:
        lowest, numbers = index.column("lowest").to_numpy(), index.column("number").to_numpy()
        touched = np.unique(np.searchsorted(lowest, _hashes(new), "right") - 1)
        stored = pa.concat_tables([entries.chunk(number) for number in numbers[touched].tolist()])
        changed, updated = _merged(stored, new, fold)
        begins = [0, *np.searchsorted(_hashes(updated), lowest[touched[1:]]).tolist(), updated.num_rows]
        slices = [updated.slice(begin, end - begin) for begin, end in pairwise(begins)]
        splits = [(int(at), _cut(part)) for at, part in zip(touched, slices, strict=True)]
    added: list[tuple[int, int]] = []  # the lowest hash and the number of new chunks
    for at, pieces in splits:
        entries.write_chunk(int(numbers[at]), pieces[0])
        for piece in pieces[1:]:
            added.append((int(_hashes(piece)[0]), numbers.size + len(added)))
            entries.write_chunk(added[-1][1], piece)
    if added:
        chunks = sorted([*zip(lowest.tolist(), numbers.tolist(), strict=True), *added])
        entries.write_index(pa.table(list(zip(*chunks, strict=True)), schema=_INDEX))
    return changed


def remove_sorted(entries: WindowEntries) -> None:
    """Remove a window with all its chunks."""
    _, index = entries.root()
    entries.remove(0 if index is None else index.num_rows)


def _merged(stored: pa.Table, new: pa.Table, fold: Fold) -> tuple[pa.Table, pa.Table]:
    """Return the merged states of the new keys, and all states; all of these tables are sorted by hash."""
    hashes, wanted = _hashes(stored), _hashes(new)
    begins, ends = np.searchsorted(hashes, wanted), np.searchsorted(hashes, wanted, "right")
    hit = np.zeros(hashes.size, bool)
    hit[begins[ends > begins]] = True
    for at in np.flatnonzero(ends > begins + 1):  # several keys have the same hash, which is rare
        hit[begins[at] : ends[at]] = True
    # New ones first: then the first rows of the merged table are the changed ones. Others only have the same hash.
    merged = fold(pa.concat_tables([new, stored.take(pa.array(np.flatnonzero(hit)))]))
    rows = np.concatenate([np.flatnonzero(~hit), hashes.size + np.arange(merged.num_rows)])
    order = np.argsort(np.concatenate([hashes[~hit], _hashes(merged)]), kind="stable")
    everything = pa.concat_tables([stored, merged]).combine_chunks()
    return merged.slice(0, new.num_rows), everything.take(pa.array(rows[order]))


def _cut(states: pa.Table) -> list[pa.Table]:
    """Cut a table of at least two chunks into chunks; rows of the same hash stay together."""
    size, count = CHUNK_BYTES, states.num_rows
    if states.nbytes < 2 * size or not count:
        return [states]
    hashes = _hashes(states)
    chunks = min(-(-states.nbytes // size), count)
    wanted = np.arange(chunks) * count // chunks
    begins = [*np.unique(np.searchsorted(hashes, hashes[wanted])).tolist(), count]
    return [states.slice(begin, end - begin) for begin, end in pairwise(begins)]


def _sorted(states: pa.Table) -> pa.Table:
    hashes = _hashes(states)
    if (hashes[1:] >= hashes[:-1]).all():
        return states
    return states.take(pa.array(np.argsort(hashes, kind="stable")))


def _hashes(states: pa.Table) -> npt.NDArray[np.int64]:
    return np.asarray(states.column(0).to_numpy())


# The state of a window in append mode: a log of parts, because nobody needs its states before the window closes.
#
# A batch writes its own states as a new part and reads nothing, except that parts are merged while the last one has
# less than twice as many states as the new one. So there are few parts (each has more than twice as many states as the
# next), and a state is rewritten as often as its part doubles. A small state is one blob. The index has a row per part:
# its number of states.


_PART_INDEX = pa.schema([("states", pa.int64())])


def append_part(entries: WindowEntries, new: pa.Table, fold: Fold) -> None:
    """Add new states, one per key, to those of a window."""
    state, index = entries.root()
    if index is None:
        if state is None or state.nbytes + new.nbytes < 2 * CHUNK_BYTES:
            entries.write_root(new if state is None else fold(pa.concat_tables([state, new])))
            return
        entries.write_chunk(0, state)
        sizes = [state.num_rows]
    else:
        sizes = index.column("states").to_pylist()
    parts, before = [new], len(sizes)
    while sizes and sizes[-1] < 2 * sum(part.num_rows for part in parts):
        sizes.pop()
        parts.insert(0, entries.chunk(len(sizes)))
    part = fold(pa.concat_tables(parts)) if len(parts) > 1 else new
    entries.write_chunk(len(sizes), part)
    sizes.append(part.num_rows)
    for number in range(len(sizes), before):
        entries.remove_chunk(number)
    entries.write_index(pa.table([sizes], schema=_PART_INDEX))


def take_parts(entries: WindowEntries, fold: Fold) -> pa.Table | None:
    """Remove a window, and return its states, one per key; None if there are none."""
    state, index = entries.root()
    if index is not None:
        state = fold(pa.concat_tables([entries.chunk(number) for number in range(index.num_rows)]))
    if state is not None:
        entries.remove(0 if index is None else index.num_rows)
    return state
