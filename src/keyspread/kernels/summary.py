"""SpaceSaving on arrays: `offer` takes amortised O(1), or O(log capacity) with weights, on any stream.

A message of a key that has a counter costs a look-up and an addition. Only a key without a counter needs the least
counter, so counters are sorted lazily. Each counter is in a queue under the count that it had when it was put there.
If it has grown by the time it comes up, it is put further back. The messages that made it grow pay for that move.

While every message counts as one, the queue is a ring of levels over [level, end), with one list of counters per
level. Counters beyond `end` wait outside. When `level` reaches `end`, the ring restarts at the least count and takes in
what fits. The ring has at least as many levels as there are counters, and the least counter must grow by one per
level, so this costs O(1) per message too.

Weights leave gaps between the counts that no ring could step over. From the first message on that weighs more than 1,
the queue is a heap, ordered by count and then by the number of the counter. So the counter that is taken is determined
by the counts alone.
"""

import math
from typing import NamedTuple

import numpy as np

from keyspread.kernels.compilation import Counts, Indices, Int, Keys, entry, part
from keyspread.kernels.mixing import GOLDEN

# Summary.scalars: counters in use; sum of all weights; the current level and the end of the ring; which queue exists;
# number of messages; whether a message has weighed more than 1; what upper bounds add to a count (see `SpaceSaving`)
SIZE, TOTAL, LEVEL, END, QUEUE, MESSAGES, WEIGHED, SURPLUS = range(8)
SCALARS = 8
NO_QUEUE, RING, HEAP = range(3)
_EMPTY = -1
_32 = np.uint64(32)


class Summary(NamedTuple):
    """Counters 0 … size-1, the hash table that finds them by key, and the queue that finds the least."""

    keys: Keys
    counts: Counts
    errors: Counts  # at most this much of the count belongs to other keys
    table: Indices  # hash table: first counter of each chain, or -1
    chain: Indices  # next counter in the same chain
    following: Indices  # next counter in the same list of the ring
    ring: Indices  # level modulo the length of the ring -> first counter of its list; or the heap, least counter first
    queued: Counts  # the count under which a counter is in the heap; empty until there are weights
    scalars: Counts


class Epochs(NamedTuple):
    """When epochs end, and what counts as unexpected growth (see `unexpected_growth`)."""

    due: int  # messages until the end of this epoch
    length: int  # messages per epoch
    total: int  # the sum of all weights when this epoch began
    deviations: float
    messages: float


def new_summary(capacity: int) -> Summary:
    """Make an empty summary."""
    return Summary(
        keys=np.zeros(capacity, np.uint64),
        counts=np.zeros(capacity, np.int64),
        errors=np.zeros(capacity, np.int64),
        table=np.full(_power_of_two(4 * capacity), _EMPTY, np.int32),
        chain=np.full(capacity, _EMPTY, np.int32),
        following=np.full(capacity, _EMPTY, np.int32),
        ring=np.full(ring_levels(capacity), _EMPTY, np.int32),
        queued=np.empty(0, np.int64),
        scalars=np.zeros(SCALARS, np.int64),
    )


def with_heap(summary: Summary) -> Summary:
    """Return the same summary with room for a heap, which kernels need before they take weights."""
    return summary if summary.queued.size else summary._replace(queued=np.zeros(summary.keys.size, np.int64))


def ring_levels(capacity: int) -> int:
    """Return the number of levels of the ring: at least one per counter."""
    return _power_of_two(capacity)


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
    """Put a counter into the ring under its count. Beyond the end of the ring it waits until the ring restarts."""
    if count < summary.scalars[END]:
        at = count & (summary.ring.size - 1)
        summary.following[counter] = summary.ring[at]
        summary.ring[at] = counter


@part
def _clear_ring(summary: Summary) -> None:
    for level in range(summary.ring.size):  # a loop, because Numba needs half a second to compile a slice
        summary.ring[level] = _EMPTY


@part
def _restart_ring(summary: Summary) -> None:
    """Restart the ring at the least count. It is empty when this is called: every counter is waiting outside."""
    size = summary.scalars[SIZE]
    least = summary.counts[0]
    for counter in range(size):
        least = min(least, summary.counts[counter])
    _clear_ring(summary)
    summary.scalars[LEVEL] = least
    summary.scalars[END] = least + summary.ring.size
    for counter in range(size):
        _enqueue(summary, counter, summary.counts[counter])


@part
def _least_in_ring(summary: Summary) -> np.int32:
    """Take a counter with the least count out of the ring."""
    scalars = summary.scalars
    if scalars[QUEUE] != RING:
        scalars[QUEUE] = RING
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
        if count == scalars[LEVEL]:
            return counter
        _enqueue(summary, counter, count)  # it has grown since it was queued


@part
def _sift_down(summary: Summary, place: Int) -> None:
    """Move the counter at `place` of the heap down until no counter below it comes before it."""
    heap, queued, size = summary.ring, summary.queued, summary.keys.size
    counter = heap[place]
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and (queued[heap[child + 1]], heap[child + 1]) < (queued[heap[child]], heap[child]):
            child += 1
        if (queued[counter], counter) <= (queued[heap[child]], heap[child]):
            break
        heap[place] = heap[child]
        place = child
    heap[place] = counter


@part
def _least_in_heap(summary: Summary) -> np.int32:
    """Return the first counter of the heap after putting back all that have grown since they were queued."""
    if summary.scalars[QUEUE] != HEAP:
        summary.scalars[QUEUE] = HEAP
        for counter in range(summary.keys.size):
            summary.ring[counter] = counter
            summary.queued[counter] = summary.counts[counter]
        for place in range(summary.keys.size // 2, -1, -1):
            _sift_down(summary, place)
    while True:
        first: np.int32 = summary.ring[0]
        if summary.queued[first] == summary.counts[first]:
            return first
        summary.queued[first] = summary.counts[first]
        _sift_down(summary, 0)


@part
def _take_over(summary: Summary, counter: np.int32, key: np.uint64, amount: Int) -> None:
    """Make a counter that has the least count the counter of `key`: the count that it had becomes the error."""
    least = summary.counts[counter]
    _unlink(summary, counter)
    _link(summary, counter, key)
    summary.errors[counter] = least
    summary.counts[counter] = least + amount


@part
def _admit(summary: Summary, key: np.uint64, amount: Int) -> np.int32:
    """Assign a counter to `key`: a free one, or one with the least count. Return the counter."""
    scalars = summary.scalars
    if scalars[SIZE] < summary.keys.size:
        counter = np.int32(scalars[SIZE])
        scalars[SIZE] += 1
        _link(summary, counter, key)
        summary.counts[counter] = amount
        summary.errors[counter] = 0
        return counter
    if scalars[WEIGHED]:
        counter = _least_in_heap(summary)  # it stays in the heap, under its old count
        _take_over(summary, counter, key, amount)
        return counter
    counter = _least_in_ring(summary)
    _take_over(summary, counter, key, amount)
    _enqueue(summary, counter, summary.counts[counter])
    return counter


@part
def offer(summary: Summary, key: np.uint64, amount: Int, messages: Int) -> np.int32:
    """Count `messages` messages of `key` that weigh `amount` together; return its counter.

    A key without a counter gets none for an amount of 0, and the result is -1: otherwise messages without weight could
    take over the counters of hot keys.
    """
    counter = find(summary, key)
    summary.scalars[TOTAL] += amount
    summary.scalars[MESSAGES] += messages
    if counter >= 0:
        summary.counts[counter] += amount
        return counter
    if amount == 0:
        return counter
    return _admit(summary, key, amount)


@part
def _offer_weighted(summary: Summary, key: np.uint64, amount: Int, messages: Int) -> np.int32:
    """Do the same as `offer`, for an amount that may be above 1. The summary must have room for a heap."""
    if amount > 1:
        summary.scalars[WEIGHED] = 1
    return offer(summary, key, amount, messages)


@part
def _unexpected_growth(
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
    unexpected = 0.0
    for counter in range(summary.scalars[SIZE]):
        count, error = summary.counts[counter], summary.errors[counter]
        past = before[counter] if error < before[counter] else least
        expected = past * ratio
        surplus = count - max(before[counter], error) - expected
        if surplus > messages * unit and surplus > messages * unit + deviations * math.sqrt(expected * unit):
            unexpected += surplus
    return unexpected


@part
def _observe(summary: Summary, key: np.uint64, threshold: float, margin: float) -> np.int32:
    """Count a message. Return its counter if that has count >= threshold * total + margin, else -1."""
    counter = offer(summary, key, 1, 1)
    return counter if summary.counts[counter] >= threshold * summary.scalars[TOTAL] + margin else np.int32(_EMPTY)


@entry
def observe(summary: Summary, keys: Keys, hot: Indices, threshold: float, margin: float) -> None:
    """Count every message. Then hot[i] is its counter if its key is hot, else -1."""
    for i in range(keys.size):
        hot[i] = _observe(summary, keys[i], threshold, margin)


@entry
def observe_epochs(
    summary: Summary, keys: Keys, hot: Indices, threshold: float, margin: float, epochs: Epochs, before: Counts
) -> tuple[int, int, int]:
    """Do the same as `observe`, and stop at the end of an epoch in which counts have grown beyond expectation.

    At the end of any other epoch, `before` becomes the counts of now. Return the number of messages counted, the number
    at which the epoch ends, and the total at its start.
    """
    due, total = epochs.due, epochs.total
    for i in range(keys.size):
        if i == due:
            now = summary.scalars[TOTAL]
            unit, ratio = now / summary.scalars[MESSAGES], (now - total) / max(total, 1)
            growth = _unexpected_growth(summary, before, ratio, epochs.deviations, epochs.messages, unit)
            if total > 0 and growth > 0:
                return i, due, total
            for counter in range(summary.scalars[SIZE]):
                before[counter] = summary.counts[counter]
            due, total = due + epochs.length, now
        hot[i] = _observe(summary, keys[i], threshold, margin)
    return keys.size, due, total


@entry
def observe_weighted(
    summary: Summary, keys: Keys, weights: Counts, hot: Indices, threshold: float, margin: float
) -> None:
    """Do the same as `observe` for messages with weights; `margin` is a multiple of the mean weight so far."""
    for i in range(keys.size):
        counter = _offer_weighted(summary, keys[i], weights[i], 1)
        total = summary.scalars[TOTAL]
        hot_from = threshold * total + margin * (total / summary.scalars[MESSAGES])
        hot[i] = counter if counter >= 0 and summary.counts[counter] >= hot_from else _EMPTY


@entry
def offer_many(summary: Summary, keys: Keys) -> None:
    """Count one message per entry of `keys`."""
    for i in range(keys.size):
        offer(summary, keys[i], 1, 1)


@entry
def offer_counts(summary: Summary, keys: Keys, amounts: Counts) -> None:
    """Count amounts[i] messages of keys[i]."""
    for i in range(keys.size):
        _offer_weighted(summary, keys[i], amounts[i], amounts[i])


@entry
def offer_weighted(summary: Summary, keys: Keys, weights: Counts) -> None:
    """Count one message of weight weights[i] per entry of `keys`."""
    for i in range(keys.size):
        _offer_weighted(summary, keys[i], weights[i], 1)


@entry
def look_up(summary: Summary, key: np.uint64) -> np.int32:
    """Return the counter of `key`; -1 if it has none."""
    return find(summary, key)


@entry
def refill(summary: Summary, keys: Keys, counts: Counts, errors: Counts) -> None:
    """Replace all counters by the given ones. The queue is empty then; all other scalars do not change."""
    for at in range(summary.table.size):
        summary.table[at] = _EMPTY
    summary.scalars[QUEUE] = NO_QUEUE
    summary.scalars[SIZE] = keys.size
    for counter in range(keys.size):
        summary.counts[counter] = counts[counter]
        summary.errors[counter] = errors[counter]
        _link(summary, np.int32(counter), keys[counter])


@entry
def list_ring(summary: Summary, counters: Indices, levels: Counts) -> int:
    """Write the counters in the ring and the levels that they are on, in the order of the ring; return how many."""
    listed = 0
    for level in range(summary.scalars[LEVEL], summary.scalars[END]):
        counter = summary.ring[level & (summary.ring.size - 1)]
        while counter >= 0:
            counters[listed], levels[listed] = counter, level
            listed += 1
            counter = summary.following[counter]
    return listed


@entry
def fill_ring(summary: Summary, counters: Indices, levels: Counts) -> None:
    """Put counters on these levels of the ring, in the order in which `list_ring` wrote them."""
    _clear_ring(summary)
    for place in range(counters.size - 1, -1, -1):
        at = levels[place] & (summary.ring.size - 1)
        summary.following[counters[place]] = summary.ring[at]
        summary.ring[at] = counters[place]


@entry
def unexpected_growth(
    summary: Summary, before: Counts, ratio: float, deviations: float, messages: float, unit: float
) -> float:
    """Return by how much counts have grown beyond expectation: see `_unexpected_growth`."""
    return _unexpected_growth(summary, before, ratio, deviations, messages, unit)
