"""Route by a plan: one table look-up for most messages, a cut by position for hot keys. No state.

Every position of a batch has a slot, a number in 0 … SLOTS-1. Consecutive positions get slots far apart, so each range
of slots holds its share of any run of positions. A hot key is cut into ranges of slots, one per worker.

The arithmetic stays below 2^62 and uses only + * & ^ >> on 64-bit integers, so that Spark SQL can compute exactly the
same (see `spark/routing/planned_sql.py`). Change both or none.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from keyspread.kernels.compilation import entry, part

SLOT_BITS = 31
SLOTS = 1 << SLOT_BITS
SCATTER = 1327217885  # SLOTS / golden ratio, odd: consecutive numbers get evenly spread slots and never the same one
_MASK = SLOTS - 1


class RoutingTable(NamedTuple):
    """A plan as arrays. A bucket that contains hot keys holds -1 - the first of them; `chain` links to the next."""

    buckets: npt.NDArray[np.int64]
    owners: npt.NDArray[np.int64]  # worker of each bucket
    keys: npt.NDArray[np.int64]  # hash of each hot key
    chain: npt.NDArray[np.int64]  # next hot key in the same bucket, or -1
    first: npt.NDArray[np.int64]  # pieces first[k] … first[k+1]-1 belong to hot key k
    ends: npt.NDArray[np.int64]  # a piece takes the slots below its end
    workers: npt.NDArray[np.int64]  # worker of each piece
    # Slots are divided into equal cells. A cell holds the piece that covers it, or -1 - the first of several pieces.
    cells: npt.NDArray[np.int32]
    first_cell: npt.NDArray[np.int64]  # cells of hot key k start here
    shift: npt.NDArray[np.int64]  # slot >> shift[k] is the cell of a slot of hot key k


@part
def scatter(x: int) -> int:
    """Return a number in 0 … SLOTS-1: evenly spread, neighbours far apart. Both halves of `x` matter."""
    return (((x ^ (x >> 32)) & _MASK) * SCATTER) & _MASK


@entry
def bucket_of(keys: npt.NDArray[np.int64], out: npt.NDArray[np.int64], buckets: int) -> None:
    """Write the bucket of every key."""
    for i in range(keys.size):
        out[i] = (scatter(keys[i]) * buckets) >> 31


@entry
def slot_of(start: int, out: npt.NDArray[np.int64]) -> None:
    """Write the slots of the positions start, start + 1, …"""
    for i in range(out.size):
        out[i] = scatter(start + i)


@part
def _piece(table: RoutingTable, hot: int, slot: int) -> np.int64:
    """Return the piece of a hot key that contains this slot. One look at its cell is mostly enough."""
    piece = np.int64(table.cells[table.first_cell[hot] + (slot >> table.shift[hot])])
    if piece < 0:
        piece = -1 - piece
        while slot >= table.ends[piece]:
            piece += 1
    return piece


@entry
def route_by_plan(keys: npt.NDArray[np.int64], out: npt.NDArray[np.int32], start: int, table: RoutingTable) -> None:
    """Write the worker of every message; keys[0] is at position `start`."""
    buckets = table.buckets.size
    for i in range(keys.size):
        bucket = (scatter(keys[i]) * buckets) >> 31
        worker = table.buckets[bucket]
        if worker < 0:
            hot = -1 - worker
            while hot >= 0 and table.keys[hot] != keys[i]:
                hot = table.chain[hot]
            worker = table.owners[bucket] if hot < 0 else table.workers[_piece(table, hot, scatter(start + i))]
        out[i] = worker
