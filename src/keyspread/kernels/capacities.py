"""Workers that differ in capacity: each is a candidate in proportion to its capacity."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keyspread.kernels.array_types import Floats, Indices, Int
from keyspread.kernels.compilation import part
from keyspread.kernels.mixing import candidate

_SLOTS_PER_WORKER = 64


class Capacities(NamedTuple):
    """The capacities of the workers. If all are equal, every capacity is 1 and slot w is worker w."""

    relative: Floats  # capacity as a multiple of the mean
    inverse: Floats  # 1 / relative: a load times this is the load per capacity
    slots: Indices  # slot -> worker. A hash chooses a slot; a worker has slots in proportion to its capacity


def new_capacities(workers: int, capacities: Sequence[float] | None) -> Capacities:
    """Make the capacities of workers from multiples of the mean, or of equal workers from None."""
    if capacities is None:
        ones = np.ones(workers)
        return Capacities(ones, ones, np.arange(workers, dtype=np.int32))
    relative = np.array(capacities)
    # Every worker has at least one slot. The other 63 * workers slots follow the capacities, rounded by largest
    # remainder. Capacities 1.5 and 0.5: 94.5 and 31.5 slots, hence 1 + 95 and 1 + 31.
    exact = relative * (_SLOTS_PER_WORKER - 1)
    slots = exact.astype(np.int64)
    missing = (_SLOTS_PER_WORKER - 1) * workers - int(slots.sum())
    slots[np.argsort(slots - exact, kind="stable")[:missing]] += 1
    return Capacities(relative, 1 / relative, np.repeat(np.arange(workers, dtype=np.int32), slots + 1))


@part
def draw_candidate(capacities: Capacities, key: np.uint64, salt: np.uint64, number: Int) -> np.int64:
    """Return F_number(key), drawn from the slots."""
    return np.int64(capacities.slots[candidate(key, salt, number, capacities.slots.size)])
