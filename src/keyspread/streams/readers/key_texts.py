"""The text of every key, stored once, for output: everything else in keyspread works on hashes."""

from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa


class KeyTexts:
    """The text of every key of a stream, by its hash: `texts[hash]`; `len(texts)` is the number of keys."""

    def __init__(self) -> None:
        """Start without keys."""
        self._hashes: npt.NDArray[np.int64] = np.empty(0, np.int64)  # ascending, distinct
        self._texts: Any = pa.array([], pa.large_binary())  # in the order of _hashes
        self._waiting: list[tuple[npt.NDArray[np.int64], Any]] = []
        self._waiting_keys = 0

    def add(self, hashes: npt.NDArray[np.int64], keys: Any) -> None:
        """Store keys of any type that `hash_keys` accepts; keys that are stored already take no more memory."""
        self._waiting.append((hashes, _as_bytes(keys)))
        self._waiting_keys += len(hashes)
        # Merge once as many wait as are stored: O(log) per key, and at most twice the memory needed.
        if self._waiting_keys > max(1 << 18, len(self._hashes)):
            self._merge_waiting()

    def _merge_waiting(self) -> None:
        if self._waiting:
            hashes = np.concatenate([self._hashes, *(hashes for hashes, _ in self._waiting)])
            texts = pa.concat_arrays([self._texts, *(texts for _, texts in self._waiting)])
            self._hashes, places = np.unique(hashes, return_index=True)
            self._texts = texts.take(pa.array(places))
            self._waiting, self._waiting_keys = [], 0

    def __len__(self) -> int:
        """Count the distinct keys."""
        self._merge_waiting()
        return len(self._hashes)

    def __getitem__(self, key_hash: int) -> str:
        """Return the text of the key with this hash, 'null' for null; raise KeyError if the stream has no such key."""
        self._merge_waiting()
        place = int(np.searchsorted(self._hashes, key_hash))
        if place == len(self._hashes) or self._hashes[place] != key_hash:
            raise KeyError(key_hash)
        return cast(bytes, self._texts[place].as_py()).decode("utf-8", "replace")


def _as_bytes(keys: Any) -> Any:
    kind, types = keys.type, pa.types
    if types.is_null(kind):
        keys = keys.cast(pa.large_binary())
    elif not (types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)):
        keys = keys.cast(pa.large_string())
    texts = keys.cast(pa.large_binary())
    return texts.fill_null(b"null") if texts.null_count else texts
