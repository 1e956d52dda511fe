"""Routing by a plan: a table look-up for most messages, a cut by position for hot keys. No state.

The arithmetic stays below 2^62 and uses only + * & >> on 64-bit integers, so that Spark SQL can do exactly the same
(see `spark/plan.py`); change both or none.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from keyspread.kernels.compilation import entry, part

TURNS = 1 << 31  # a turn is a number in 0 … TURNS-1
SCATTER = 1327217885  # TURNS / golden ratio, odd: consecutive numbers land evenly spread and never twice
_MASK = TURNS - 1


class Deal(NamedTuple):
    """A plan as arrays. A bucket with hot keys in it holds -1 - the first of them, the others follow in `chain`."""

    buckets: npt.NDArray[np.int64]
    owners: npt.NDArray[np.int64]  # worker of each bucket
    keys: npt.NDArray[np.int64]
    chain: npt.NDArray[np.int64]  # next hot key in the same bucket, or -1
    first: npt.NDArray[np.int64]  # pieces first[k] … first[k+1]-1 belong to hot key k
    ends: npt.NDArray[np.int64]  # a piece takes the turns below its end
    workers: npt.NDArray[np.int64]
    cells: npt.NDArray[
        np.int32
    ]  # turns in equal cells: the piece that has the whole cell, or -1 - the first that has some
    first_cell: npt.NDArray[np.int64]
    shift: npt.NDArray[np.int64]  # turn >> shift[k] is the cell of a turn of hot key k


@part
def scatter(x: Any) -> Any:
    """Spread numbers evenly over 0 … TURNS-1, neighbours far apart; both halves of `x` matter."""
    return (((x ^ (x >> 32)) & _MASK) * SCATTER) & _MASK


@entry
def bucket_of(keys: Any, out: Any, buckets: Any) -> None:
    """Write the bucket of every key."""
    for i in range(keys.size):
        out[i] = (scatter(keys[i]) * buckets) >> 31


@entry
def turn_of(start: Any, out: Any) -> None:
    """Write the turns of the positions from `start` on."""
    for i in range(out.size):
        out[i] = scatter(start + i)


@part
def _piece(deal: Any, hot: Any, turn: Any) -> Any:
    """Return the piece of a hot key that takes this turn: mostly one look at its cell."""
    piece = np.int64(deal.cells[deal.first_cell[hot] + (turn >> deal.shift[hot])])
    if piece < 0:
        piece = -1 - piece
        while turn >= deal.ends[piece]:
            piece += 1
    return piece


@entry
def deal_out(keys: Any, out: Any, start: Any, deal: Any) -> None:
    """Write the worker of every message; keys[0] stands at position `start`."""
    buckets = deal.buckets.size
    for i in range(keys.size):
        bucket = (scatter(keys[i]) * buckets) >> 31
        worker = deal.buckets[bucket]
        if worker < 0:
            hot = -1 - worker
            while hot >= 0 and deal.keys[hot] != keys[i]:
                hot = deal.chain[hot]
            worker = deal.owners[bucket] if hot < 0 else deal.workers[_piece(deal, hot, scatter(start + i))]
        out[i] = worker
