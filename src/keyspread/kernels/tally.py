"""What became of routed messages: the load of each worker, the head's part of it, and the workers of each key."""

import numpy as np

from keyspread.kernels.array_types import Bits, Counts, Flags, Indices
from keyspread.kernels.compilation import entry

_ONE = np.uint64(1)


@entry
def tally(
    ids: Indices, routed: Indices, weights: Counts, is_head: Flags, loads: Counts, head_loads: Counts, replicas: Bits
) -> None:
    """Add messages to `loads`, and those of hot keys to `head_loads`; set the worker's bit in the key's `replicas`.

    `ids` are positions of keys in `is_head` and `replicas`. If `weights` is empty, each message counts 1.
    """
    for i in range(ids.size):
        key, worker = ids[i], np.int64(routed[i])
        weight = weights[i] if weights.size else 1
        loads[worker] += weight
        if is_head[key]:
            head_loads[worker] += weight
        replicas[key, worker >> 6] |= _ONE << np.uint64(worker & 63)


@entry
def count_bits(rows: Bits, out: Counts) -> None:
    """Write the number of set bits of every row."""
    for row in range(rows.shape[0]):
        bits = 0
        for word in range(rows.shape[1]):
            rest = rows[row, word]
            while rest:
                rest &= rest - _ONE  # clears the lowest bit: 0b1100 & 0b1011 = 0b1000
                bits += 1
        out[row] = bits
