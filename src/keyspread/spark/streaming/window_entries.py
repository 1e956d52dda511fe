"""The entries of one window in the map state of a partition: a root, and chunks with numbers if the state is large.

The root is the state itself, one blob of columns, as long as that is small. Otherwise it is an index of chunks, so that
a batch reads and writes what it touches. `sorted_chunks.py` and `part_log.py` decide what is in a chunk.
"""

from typing import Any

import pyarrow as pa

from keyspread.spark.streaming.blobs import INDEX, StateError, from_blob, is_index, to_blob

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
