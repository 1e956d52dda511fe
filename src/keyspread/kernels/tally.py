"""What became of routed messages: the load of each worker, the head's part of it, and who met which key."""

from typing import Any

import numpy as np

from keyspread.kernels.compilation import entry

_ONE = np.uint64(1)


@entry
def tally(ids: Any, routed: Any, weights: Any, is_head: Any, loads: Any, head_loads: Any, met: Any) -> None:
    """Add messages to `loads`, those of hot keys to `head_loads` too, and set the worker's bit in the key's row.

    Without `weights` (an empty array) each message counts 1.
    """
    for i in range(ids.size):
        key, worker = ids[i], np.int64(routed[i])
        weight = weights[i] if weights.size else 1
        loads[worker] += weight
        if is_head[key]:
            head_loads[worker] += weight
        met[key, worker >> 6] |= _ONE << np.uint64(worker & 63)


@entry
def count_bits(rows: Any, out: Any) -> None:
    """Write how many bits each row has."""
    for row in range(rows.shape[0]):
        bits = 0
        for word in range(rows.shape[1]):
            rest = rows[row, word]
            while rest:
                rest &= rest - _ONE
                bits += 1
        out[row] = bits
