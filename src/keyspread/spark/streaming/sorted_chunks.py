"""The state of a window in update mode: sorted by the hash of the key, and cut into chunks of neighbouring hashes.

A batch reads the chunks that have the hashes of its keys, merges only those keys, and writes these chunks back. So its
time depends on the keys of the batch, not on those of the state, once there are more chunks than keys in a batch. A
state of less than two chunks is one blob. The index has a row per chunk: the lowest hash that belongs to it, and its
number.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keyspread.spark.streaming import window_entries
from keyspread.spark.streaming.window_entries import WindowEntries

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
    size, count = window_entries.CHUNK_BYTES, states.num_rows
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
