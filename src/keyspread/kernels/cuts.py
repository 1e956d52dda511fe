"""Where hot keys are cut: the slots at which their pieces end (see `planned_routing` for slots).

The pieces of key k are first[k] … first[k + 1] - 1. The last piece of every key ends at SLOTS.
"""

import numpy as np

from keyspread.kernels.array_types import Counts, Indices, Int
from keyspread.kernels.compilation import entry, part
from keyspread.kernels.planned_routing import SLOT_BITS, SLOTS

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
