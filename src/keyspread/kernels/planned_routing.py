"""Route by a plan: one table look-up for most messages, a cut by position for hot keys. No state.

Every position of a batch has a slot, a number in 0 … SLOTS-1. Consecutive positions get slots far apart, so each range
of slots holds its share of any run of positions. A hot key is cut into ranges of slots, one per worker.

The arithmetic stays below 2^62 and uses only + * & ^ >> on 64-bit integers, so that Spark SQL can compute exactly the
same (see `spark/_routing/planned_sql.py`). Change both or none.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from keyspread.kernels.compilation import Bits, Counts, Flags, Indices, Int, entry, part

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


# Where hot keys are cut: the slots at which their pieces end (see `planned_routing` for slots).
#
# The pieces of key k are first[k] … first[k + 1] - 1. The last piece of every key ends at SLOTS.


_SMALL = 1 << (63 - SLOT_BITS)  # below this, a count times SLOTS fits in 64 bits


@part
def _fraction(done: Int, whole: Int) -> np.int64:
    """Return done * SLOTS // whole exactly, for done <= whole."""
    if whole < _SMALL:
        return np.int64((done << SLOT_BITS) // whole)
    if done == whole:
        return np.int64(SLOTS)
    quotient, rest = np.int64(0), np.uint64(done)
    for _ in range(SLOT_BITS):  # long division in binary. The rest is below 2^63, so twice the rest is below 2^64
        rest <<= np.uint64(1)
        quotient <<= 1
        if rest >= np.uint64(whole):
            rest -= np.uint64(whole)
            quotient += 1
    return quotient


@entry
def cut_by_weight(first: Counts, weights: Counts, ends: Counts) -> None:
    """Cut every key in proportion to the weights of its pieces."""
    # weights 1 and 3: the pieces end at SLOTS / 4 and SLOTS
    for key in range(first.size - 1):
        whole = np.int64(0)
        for piece in range(first[key], first[key + 1]):
            whole += weights[piece]
        done = np.int64(0)
        for piece in range(first[key], first[key + 1]):
            done += weights[piece]
            ends[piece] = _fraction(done, whole)


@entry
def cut_by_messages(first: Counts, weights: Counts, first_message: Counts, slots: Counts, ends: Counts) -> None:
    """Cut every key so that each piece gets exactly as many of its messages as it weighs.

    The messages of key k have the slots[first_message[k] … first_message[k + 1] - 1], in ascending order.
    """
    for key in range(first.size - 1):
        done = first_message[key]
        for piece in range(first[key], first[key + 1] - 1):
            done += weights[piece]
            ends[piece] = slots[done]
        ends[first[key + 1] - 1] = SLOTS


@entry
def cut_by_message_weights(
    first: Counts, weights: Counts, first_message: Counts, slots: Counts, message_weights: Counts, ends: Counts
) -> None:
    """Cut every key where the sum of its messages' weights, in the order of slots, is closest to that of its pieces."""
    # messages of weight 4 4 4, pieces of 5 and 7: cut after the first message (4 is closer to 5 than 8 is)
    for key in range(first.size - 1):
        message, last = first_message[key], first_message[key + 1] - 1
        before = np.int64(0)  # the weight of the messages before `message`
        planned = np.int64(0)  # the weight of the pieces so far
        for piece in range(first[key], first[key + 1] - 1):
            planned += weights[piece]
            while message < last and _middle(before, message_weights[message]) < planned:
                before += message_weights[message]
                message += 1
            ends[piece] = slots[message]
        ends[first[key + 1] - 1] = SLOTS


@part
def _middle(before: Int, weight: Int) -> float:
    return (before + weight) - weight / 2


@part
def _edge(cell: Int, cells: Int) -> float:
    """Return the slot at which a cell begins."""
    return cell * (SLOTS / cells) if cell < cells else 1.0 * SLOTS


@entry
def cut_by_cells(first: Counts, weights: Counts, first_cell: Counts, counted: Counts, ends: Counts) -> None:
    """Cut every key by counts of its messages in equal cells of slots, evenly within a cell.

    The counts of key k are counted[first_cell[k] … first_cell[k + 1] - 1].
    """
    # 2 cells with 30 and 10 messages, pieces of 15 and 25: the first piece ends in the middle of the first cell
    for key in range(first.size - 1):
        begin, end = first_cell[key], first_cell[key + 1]
        whole, messages = np.int64(0), np.int64(0)
        for cell in range(begin, end):
            messages += counted[cell]
        for piece in range(first[key], first[key + 1]):
            whole += weights[piece]
        scale = messages / whole
        cell, before, done = begin, np.int64(0), np.int64(0)  # `before`: the messages in the cells before `cell`
        for piece in range(first[key], first[key + 1] - 1):
            done += weights[piece]
            due = done * scale  # messages that the pieces so far should have
            while cell < end and before + counted[cell] <= due:
                before += counted[cell]
                cell += 1
            edge = _edge(cell - begin, end - begin)
            if cell < end and due > before:
                edge += (_edge(cell + 1 - begin, end - begin) - edge) / counted[cell] * (due - before)
            ends[piece] = np.int64(edge)
        ends[first[key + 1] - 1] = SLOTS


@entry
def fill_cells(first: Counts, ends: Counts, first_cell: Counts, shift: Counts, cells: Indices) -> None:
    """Write, for each cell of slots, the piece that covers it, or -1 - the first of several.

    The cells of key k are first_cell[k] … first_cell[k + 1] - 1, each 2^shift[k] slots wide.
    """
    for key in range(first.size - 1):
        piece, last = first[key], first[key + 1] - 1
        for cell in range(first_cell[key + 1] - first_cell[key]):
            begin, end = cell << shift[key], (cell + 1) << shift[key]
            while piece < last and ends[piece] <= begin:
                piece += 1
            alone = piece >= last or ends[piece] >= end
            cells[first_cell[key] + cell] = piece if alone else -1 - piece


# What became of routed messages: the load of each worker, the head's part of it, and the workers of each key.


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
