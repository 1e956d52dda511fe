"""Workers that differ in capacity: what each holds, and candidates in proportion to it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from keyspread.kernels.compilation import part
from keyspread.kernels.mixing import candidate

_SLOTS_PER_WORKER = 64


class Fleet(NamedTuple):
    """The workers as candidates are drawn and loads compared. For equal workers everything is 1, slot w is worker w."""

    capacity: npt.NDArray[np.float64]  # as a multiple of the mean
    burden: npt.NDArray[np.float64]  # what a load of 1 means to the worker: 1 / capacity
    slots: npt.NDArray[np.int32]  # a hash chooses a slot; a worker has slots in proportion to its capacity


def new_fleet(workers: int, capacities: Sequence[float] | None) -> Fleet:
    """Make the fleet of workers with these capacities (multiples of the mean), or of equal ones."""
    if capacities is None:
        ones = np.ones(workers)
        return Fleet(ones, ones, np.arange(workers, dtype=np.int32))
    capacity = np.array(capacities)
    # Every worker has one slot at least; the rest by the largest remainder, so that the slots are as many as planned.
    exact = capacity * (_SLOTS_PER_WORKER - 1)
    many = exact.astype(np.int64)
    missing = (_SLOTS_PER_WORKER - 1) * workers - int(many.sum())
    many[np.argsort(many - exact, kind="stable")[:missing]] += 1
    return Fleet(capacity, 1 / capacity, np.repeat(np.arange(workers, dtype=np.int32), many + 1))


@part
def drawn(fleet: Any, key: Any, salt: Any, number: Any) -> Any:
    """F_number(key), drawn from the slots."""
    return np.int64(fleet.slots[candidate(key, salt, number, fleet.slots.size)])
