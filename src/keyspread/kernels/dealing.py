"""Routing by a plan: a table look-up for most messages, a cut by position for hot keys. No state.

The arithmetic stays below 2^62 and uses only + * & >> on 64-bit integers, so that Spark SQL can do exactly the same
(see `spark/planned.py`); change both or none.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from keyspread.kernels.compiled import entry, part

TURNS = 1 << 31  # a turn is a number in 0 … TURNS-1
SCATTER = 1327217885  # TURNS / golden ratio, odd: consecutive numbers land evenly spread and never twice
_MASK = TURNS - 1


class Deal(NamedTuple):
    """A plan as arrays. A bucket with a hot key in it has its worker stored as -1 - worker."""

    buckets: npt.NDArray[np.int64]
    slots: npt.NDArray[np.int32]  # hash table: place -> number of the hot key or -1
    keys: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]  # pieces first[k] … first[k+1]-1 belong to hot key k
    ends: npt.NDArray[np.int64]  # a piece takes the turns below its end
    workers: npt.NDArray[np.int64]


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
    first = deal.first[hot]
    last = deal.first[hot + 1] - 1
    piece = first + ((turn * (last - first + 1)) >> 31)  # pieces are of similar size, so this is near
    while turn >= deal.ends[piece]:
        piece += 1
    while piece > first and turn < deal.ends[piece - 1]:
        piece -= 1
    return piece


@entry
def deal_out(keys: Any, out: Any, start: Any, deal: Any) -> None:
    """Write the worker of every message; keys[0] stands at position `start`."""
    buckets = deal.buckets.size
    mask = deal.slots.size - 1
    for i in range(keys.size):
        spread = scatter(keys[i])
        worker = deal.buckets[(spread * buckets) >> 31]
        if worker < 0:
            worker = -1 - worker
            at = spread & mask
            while deal.slots[at] >= 0:
                hot = deal.slots[at]
                if deal.keys[hot] == keys[i]:
                    worker = deal.workers[_piece(deal, hot, scatter(start + i))]
                    break
                at = (at + 1) & mask
        out[i] = worker
