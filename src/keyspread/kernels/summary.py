"""SpaceSaving on arrays: `offer` takes amortised O(1), on any stream.

A message of a key that has a counter costs a look-up and an addition. Only a key without a counter needs the least
counter, so counters are sorted lazily. Each counter is in a queue under the count that it had when it was put there.
If it has grown by the time it comes up, it is put further back. The messages that made it grow pay for that move.

The queue is a ring of levels over [level, end), with one list of counters per level. Counters beyond `end` wait
outside. When `level` reaches `end`, the ring restarts at the least count and takes in what fits. The ring has at least
as many levels as there are counters, and the least counter must grow by one per level, so this costs O(1) per message
too.

If messages have weights, a level takes in several counts: a power of two, at most the mean weight. The counter that is
taken may then exceed the least one, but by less than a level.

    mean weight 5: a level holds 4 counts; 8 … 11 are on level 2, and any of these counters may be taken first
"""

import math
from typing import NamedTuple

import numpy as np

from keyspread.kernels.array_types import Counts, Indices, Int, Keys
from keyspread.kernels.compilation import entry, part
from keyspread.kernels.mixing import GOLDEN

# Summary.scalars: counters in use; sum of all weights; the current level and the end of the ring; whether the queue
# exists; number of messages; a level holds 2^shift counts
SIZE, TOTAL, LEVEL, END, QUEUED, MESSAGES, SHIFT = range(7)
_EMPTY = -1
_32 = np.uint64(32)


class Summary(NamedTuple):
    """Counters 0 … size-1, the hash table that finds them by key, and the queue that finds the least."""

    keys: Keys
    counts: Counts
    errors: Counts  # at most this much of the count belongs to other keys
    table: Indices  # hash table: first counter of each chain, or -1
    chain: Indices  # next counter in the same chain
    following: Indices  # next counter in the same list of the queue
    ring: Indices  # level modulo the length of the ring -> first counter of its list
    scalars: Counts


def new_summary(capacity: int) -> Summary:
    """Make an empty summary."""
    return Summary(
        keys=np.zeros(capacity, np.uint64),
        counts=np.zeros(capacity, np.int64),
        errors=np.zeros(capacity, np.int64),
        table=np.full(_power_of_two(4 * capacity), _EMPTY, np.int32),
        chain=np.full(capacity, _EMPTY, np.int32),
        following=np.full(capacity, _EMPTY, np.int32),
        ring=np.full(_power_of_two(capacity), _EMPTY, np.int32),
        scalars=np.zeros(7, np.int64),
    )


def _power_of_two(at_least: int) -> int:
    return 1 << max(4, (at_least - 1).bit_length())


@part
def home(summary: Summary, key: np.uint64) -> np.int64:
    """Return the index in the table at which the chain of `key` starts."""
    return np.int64((key * GOLDEN) >> _32) & (summary.table.size - 1)


@part
def find(summary: Summary, key: np.uint64) -> np.int32:
    """Return the counter of `key`; -1 if it has none."""
    counter: np.int32 = summary.table[home(summary, key)]
    while counter >= 0 and summary.keys[counter] != key:
        counter = summary.chain[counter]
    return counter


@part
def _link(summary: Summary, counter: np.int32, key: np.uint64) -> None:
    """Make `counter` the counter of `key`: put it first in its chain."""
    at = home(summary, key)
    summary.keys[counter] = key
    summary.chain[counter] = summary.table[at]
    summary.table[at] = counter


@part
def _unlink(summary: Summary, counter: np.int32) -> None:
    """Take a counter out of the chain of its key."""
    at = home(summary, summary.keys[counter])
    before = summary.table[at]
    if before == counter:
        summary.table[at] = summary.chain[counter]
        return
    while summary.chain[before] != counter:
        before = summary.chain[before]
    summary.chain[before] = summary.chain[counter]


@part
def _enqueue(summary: Summary, counter: Int, count: Int) -> None:
    """Put a counter into the queue under its count. Beyond the end of the ring it waits until the ring restarts."""
    level = count >> summary.scalars[SHIFT]
    if level < summary.scalars[END]:
        at = level & (summary.ring.size - 1)
        summary.following[counter] = summary.ring[at]
        summary.ring[at] = counter


@part
def _restart_ring(summary: Summary) -> None:
    """Restart the ring at the least count. It is empty when this is called: every counter is waiting outside."""
    size = summary.scalars[SIZE]
    least = summary.counts[0]
    for counter in range(size):
        least = min(least, summary.counts[counter])
    shift = summary.scalars[SHIFT]
    # A level never shrinks. Total 500, 100 messages: shift 2, because 500 >> 2 is 125 >= 100 and 500 >> 3 is 62 < 100.
    while summary.scalars[TOTAL] >> (shift + 1) >= summary.scalars[MESSAGES] > 0:
        shift += 1
    summary.scalars[SHIFT] = shift
    least >>= shift
    for level in range(summary.ring.size):  # a loop, because Numba needs half a second to compile a slice
        summary.ring[level] = _EMPTY
    summary.scalars[LEVEL] = least
    summary.scalars[END] = least + summary.ring.size
    for counter in range(size):
        _enqueue(summary, counter, summary.counts[counter])


@part
def _take_least(summary: Summary) -> np.int32:
    """Take a counter of the lowest level out of the queue."""
    scalars = summary.scalars
    if scalars[QUEUED] == 0:
        scalars[QUEUED] = 1
        scalars[LEVEL] = scalars[END]
    while True:
        if scalars[LEVEL] == scalars[END]:
            _restart_ring(summary)
        at = scalars[LEVEL] & (summary.ring.size - 1)
        counter: np.int32 = summary.ring[at]
        if counter < 0:
            scalars[LEVEL] += 1
            continue
        summary.ring[at] = summary.following[counter]
        count = summary.counts[counter]
        if count >> scalars[SHIFT] == scalars[LEVEL]:
            return counter
        _enqueue(summary, counter, count)  # it has grown since it was queued


@part
def _admit(summary: Summary, key: np.uint64, amount: Int) -> np.int32:
    """Assign a counter to `key`: a free one, or the least, whose count becomes the error. Return the counter."""
    scalars = summary.scalars
    if scalars[SIZE] < summary.keys.size:
        counter = np.int32(scalars[SIZE])
        scalars[SIZE] += 1
        _link(summary, counter, key)
        summary.counts[counter] = amount
        summary.errors[counter] = 0
        return counter
    counter = _take_least(summary)
    least = summary.counts[counter]
    _unlink(summary, counter)
    _link(summary, counter, key)
    summary.errors[counter] = least
    summary.counts[counter] = least + amount
    _enqueue(summary, counter, least + amount)
    return counter


@part
def offer(summary: Summary, key: np.uint64, amount: Int, messages: Int) -> np.int32:
    """Count `messages` messages of `key` that weigh `amount` together; return its counter."""
    counter = find(summary, key)
    summary.scalars[TOTAL] += amount
    summary.scalars[MESSAGES] += messages
    if counter >= 0:
        summary.counts[counter] += amount
        return counter
    return _admit(summary, key, amount)


@entry
def observe(summary: Summary, keys: Keys, hot: Indices, threshold: float, margin: float) -> None:
    """Count every message. Then hot[i] is its counter if that has count >= threshold * total + margin, else -1."""
    for i in range(keys.size):
        counter = offer(summary, keys[i], 1, 1)
        if summary.counts[counter] >= threshold * summary.scalars[TOTAL] + margin:
            hot[i] = counter
        else:
            hot[i] = _EMPTY


@entry
def observe_weighted(
    summary: Summary, keys: Keys, weights: Counts, hot: Indices, threshold: float, margin: float
) -> None:
    """Do the same as `observe` for messages with weights; `margin` is a multiple of the mean weight so far."""
    for i in range(keys.size):
        counter = offer(summary, keys[i], weights[i], 1)
        total = summary.scalars[TOTAL]
        if summary.counts[counter] >= threshold * total + margin * (total / summary.scalars[MESSAGES]):
            hot[i] = counter
        else:
            hot[i] = _EMPTY


@entry
def offer_many(summary: Summary, keys: Keys) -> None:
    """Count one message per entry of `keys`."""
    for i in range(keys.size):
        offer(summary, keys[i], 1, 1)


@entry
def offer_counts(summary: Summary, keys: Keys, amounts: Counts) -> None:
    """Count amounts[i] messages of keys[i]."""
    for i in range(keys.size):
        offer(summary, keys[i], amounts[i], amounts[i])


@entry
def offer_weighted(summary: Summary, keys: Keys, weights: Counts) -> None:
    """Count one message of weight weights[i] per entry of `keys`."""
    for i in range(keys.size):
        offer(summary, keys[i], weights[i], 1)


@entry
def look_up(summary: Summary, key: np.uint64) -> np.int32:
    """Return the counter of `key`; -1 if it has none."""
    return find(summary, key)


@entry
def refill(summary: Summary, keys: Keys, counts: Counts, errors: Counts) -> None:
    """Replace all counters by the given ones. The total, the number of messages and the shift do not change."""
    for at in range(summary.table.size):
        summary.table[at] = _EMPTY
    summary.scalars[QUEUED] = 0
    summary.scalars[SIZE] = keys.size
    for counter in range(keys.size):
        summary.counts[counter] = counts[counter]
        summary.errors[counter] = errors[counter]
        _link(summary, np.int32(counter), keys[counter])


@entry
def unexpected_growth(
    summary: Summary, before: Counts, ratio: float, deviations: float, messages: float, unit: float
) -> float:
    """Return by how much counts have grown beyond expectation, in sum, since they were `before` (one per counter).

    A count c is expected to grow by c * ratio. Growth is called unexpected if it exceeds that by `messages` messages
    of mean weight `unit` plus `deviations` standard deviations. What exceeds it by less may be chance.
    """
    # ratio 0.1, 4 deviations, 8 messages, unit 1: a count of 1000 is expected to grow by 100, and growth is unexpected
    # beyond 100 + 8 + 4 * 10 = 148. If the count grew by 150, it adds 50 to the sum.
    least = before[0]
    for counter in range(before.size):
        least = min(least, before[counter])
    found = 0.0
    for counter in range(summary.scalars[SIZE]):
        count, error = summary.counts[counter], summary.errors[counter]
        past = before[counter] if error < before[counter] else least
        expected = past * ratio
        surplus = count - max(before[counter], error) - expected
        if surplus > messages * unit and surplus > messages * unit + deviations * math.sqrt(expected * unit):
            found += surplus
    return found
