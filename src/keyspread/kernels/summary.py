"""SpaceSaving on arrays: `offer` in amortised O(1), whatever the stream.

A hit costs a look-up and one addition. Only a miss needs the least counter, so counters are ordered lazily:
each stands in a queue under the count it had when it was put there, and is put further back when it comes up
and has grown since. That move is paid by the hits that made it grow.

The queue is a ring of levels (one list a count) over [level, end); counters beyond `end` wait outside and are dealt
to the ring when `level` reaches `end`. The ring has at least as many levels as there are counters, and
the least counter must grow by one a level, so dealing costs O(1) a message too. Where messages have weights, a
level takes in as many counts as the mean weight at most (a power of two): the least counter is the least but for that.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from keyspread.kernels.compilation import entry, part
from keyspread.kernels.mixing import GOLDEN

SIZE, TOTAL, LEVEL, END, QUEUED, MESSAGES, SHIFT = range(7)
_EMPTY = -1
_32 = np.uint64(32)


class Summary(NamedTuple):
    """Counters 0 … size-1, the table that finds them by key and the queue that finds the least."""

    keys: npt.NDArray[np.uint64]
    counts: npt.NDArray[np.int64]
    errors: npt.NDArray[np.int64]
    table: npt.NDArray[np.int32]  # hash table: first counter of each chain, or -1
    chain: npt.NDArray[np.int32]  # next counter in the same chain
    following: npt.NDArray[np.int32]  # next counter in the same list of the queue
    ring: npt.NDArray[np.int32]  # count modulo its length -> first counter of that list
    scalars: npt.NDArray[np.int64]


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
def home(summary: Any, key: Any) -> Any:
    """Return the place of the table where the chain of `key` starts."""
    return np.int64((key * GOLDEN) >> _32) & (summary.table.size - 1)


@part
def find(summary: Any, key: Any) -> Any:
    """Return the counter of `key`, or -1."""
    counter = summary.table[home(summary, key)]
    while counter >= 0 and summary.keys[counter] != key:
        counter = summary.chain[counter]
    return counter


@part
def _link(summary: Any, counter: Any, key: Any) -> None:
    at = home(summary, key)
    summary.keys[counter] = key
    summary.chain[counter] = summary.table[at]
    summary.table[at] = counter


@part
def _unlink(summary: Any, counter: Any) -> None:
    at = home(summary, summary.keys[counter])
    before = summary.table[at]
    if before == counter:
        summary.table[at] = summary.chain[counter]
        return
    while summary.chain[before] != counter:
        before = summary.chain[before]
    summary.chain[before] = summary.chain[counter]


@part
def _enqueue(summary: Any, counter: Any, count: Any) -> None:
    """Queue a counter under its count; beyond the ring it waits for the next dealing."""
    level = count >> summary.scalars[SHIFT]
    if level < summary.scalars[END]:
        at = level & (summary.ring.size - 1)
        summary.following[counter] = summary.ring[at]
        summary.ring[at] = counter


@part
def _deal(summary: Any) -> None:
    """Start the ring anew at the least count. It is empty when this is called: every counter is waiting."""
    size = summary.scalars[SIZE]
    least = summary.counts[0]
    for counter in range(size):
        least = min(least, summary.counts[counter])
    shift = summary.scalars[SHIFT]
    while summary.scalars[TOTAL] >> (shift + 1) >= summary.scalars[MESSAGES] > 0:
        shift += 1
    summary.scalars[SHIFT] = shift
    least >>= shift
    for level in range(summary.ring.size):  # a loop, because a slice takes Numba half a second to compile
        summary.ring[level] = _EMPTY
    summary.scalars[LEVEL] = least
    summary.scalars[END] = least + summary.ring.size
    for counter in range(size):
        _enqueue(summary, counter, summary.counts[counter])


@part
def _take_least(summary: Any) -> Any:
    """Take a counter with the least count out of the queue."""
    scalars = summary.scalars
    if scalars[QUEUED] == 0:
        scalars[QUEUED] = 1
        scalars[LEVEL] = scalars[END]
    while True:
        if scalars[LEVEL] == scalars[END]:
            _deal(summary)
        at = scalars[LEVEL] & (summary.ring.size - 1)
        counter = summary.ring[at]
        if counter < 0:
            scalars[LEVEL] += 1
            continue
        summary.ring[at] = summary.following[counter]
        count = summary.counts[counter]
        if count >> scalars[SHIFT] == scalars[LEVEL]:
            return counter
        _enqueue(summary, counter, count)  # it has grown since it was queued


@part
def _admit(summary: Any, key: Any, amount: Any) -> Any:
    """Give `key` a counter: a free one, or the least, whose count becomes the error."""
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
def offer(summary: Any, key: Any, amount: Any, messages: Any) -> Any:
    """Count `key` once more: so many messages that weigh `amount` together; return its counter."""
    counter = find(summary, key)
    summary.scalars[TOTAL] += amount
    summary.scalars[MESSAGES] += messages
    if counter >= 0:
        summary.counts[counter] += amount
        return counter
    return _admit(summary, key, amount)


@entry
def observe(summary: Any, keys: Any, hot: Any, threshold: Any, margin: Any) -> None:
    """Count every key; hot[i] is its counter if its count is >= threshold * total + margin by then, else -1."""
    for i in range(keys.size):
        counter = offer(summary, keys[i], 1, 1)
        if summary.counts[counter] >= threshold * summary.scalars[TOTAL] + margin:
            hot[i] = counter
        else:
            hot[i] = _EMPTY


@entry
def observe_weighted(summary: Any, keys: Any, weights: Any, hot: Any, threshold: Any, margin: Any) -> None:
    """Do what `observe` does for messages with weights; `margin` is a multiple of the mean weight by then."""
    for i in range(keys.size):
        counter = offer(summary, keys[i], weights[i], 1)
        total = summary.scalars[TOTAL]
        if summary.counts[counter] >= threshold * total + margin * (total / summary.scalars[MESSAGES]):
            hot[i] = counter
        else:
            hot[i] = _EMPTY


@entry
def offer_many(summary: Any, keys: Any) -> None:
    """Count every one of `keys` once."""
    for i in range(keys.size):
        offer(summary, keys[i], 1, 1)


@entry
def offer_counts(summary: Any, keys: Any, amounts: Any) -> None:
    """Count keys[i] amounts[i] times."""
    for i in range(keys.size):
        offer(summary, keys[i], amounts[i], amounts[i])


@entry
def offer_weighted(summary: Any, keys: Any, weights: Any) -> None:
    """Count every one of `keys` by its weight."""
    for i in range(keys.size):
        offer(summary, keys[i], weights[i], 1)


@entry
def look_up(summary: Any, key: Any) -> Any:
    """Return the counter of `key`, or -1."""
    return find(summary, key)


@entry
def refill(summary: Any, keys: Any, counts: Any, errors: Any) -> None:
    """Replace all counters by the given ones; the total stays as it is."""
    for at in range(summary.table.size):
        summary.table[at] = _EMPTY
    summary.scalars[QUEUED] = 0
    summary.scalars[SIZE] = keys.size
    for counter in range(keys.size):
        summary.counts[counter] = counts[counter]
        summary.errors[counter] = errors[counter]
        _link(summary, np.int32(counter), keys[counter])


@entry
def unforetold(summary: Any, before: Any, ratio: Any, deviations: Any, messages: Any, unit: Any) -> Any:
    """Return how many messages came since `before` (counts, one a counter) that were not to be expected by then.

    A count c was to grow by c * ratio. Only growth beyond that by so many deviations and messages is no chance. A
    message counts `unit` on average, and so does what is returned.
    """
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
