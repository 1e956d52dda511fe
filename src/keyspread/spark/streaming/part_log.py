"""The state of a window in append mode: a log of parts, because nobody needs its states before the window closes.

A batch writes its own states as a new part and reads nothing, except that parts are merged while the last one has less
than twice as many states as the new one. So there are few parts (each has more than twice as many states as the next),
and a state is rewritten as often as its part doubles. A small state is one blob. The index has a row per part: its
number of states.
"""

import pyarrow as pa

from keyspread.spark.streaming import window_entries
from keyspread.spark.streaming.sorted_chunks import Fold
from keyspread.spark.streaming.window_entries import WindowEntries

_INDEX = pa.schema([("states", pa.int64())])


def append_part(entries: WindowEntries, new: pa.Table, fold: Fold) -> None:
    """Add new states, one per key, to those of a window."""
    state, index = entries.root()
    if index is None:
        if state is None or state.nbytes + new.nbytes < 2 * window_entries.CHUNK_BYTES:
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
    entries.write_index(pa.table([sizes], schema=_INDEX))


def take_parts(entries: WindowEntries, fold: Fold) -> pa.Table | None:
    """Remove a window, and return its states, one per key; None if there are none."""
    state, index = entries.root()
    if index is not None:
        state = fold(pa.concat_tables([entries.chunk(number) for number in range(index.num_rows)]))
    if state is not None:
        entries.remove(0 if index is None else index.num_rows)
    return state
