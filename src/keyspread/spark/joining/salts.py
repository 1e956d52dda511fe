"""Salts: numbers behind the join keys that make Spark's own exchange send a row to the worker that a plan wants.

Spark hashes several columns one after the other: the hash of the first ones is the seed for the next. So Spark's hash
of a key alone is enough to know its hash with any salt. Murmur3 can be undone, so salts are computed, not searched.
"""

import numpy as np
import numpy.typing as npt

from keyspread.spark.routing.tags import spark_hash, value_of_hash

Numbers = npt.NDArray[np.int64]


def partitions_of(hashes: Numbers, salts: Numbers, partitions: int) -> Numbers:
    """Return where Spark puts keys with these hashes and salts.

    >>> partitions_of(np.array([42]), np.array([12]), 4)  # 42 is the hash of a null; see `tags`
    array([0])
    """
    found: Numbers = spark_hash(salts, hashes) % partitions
    return found


def salts_of(hashes: Numbers, workers: Numbers, partitions: int) -> Numbers:
    """Return a salt for each piece: of a key with this hash, for this worker.

    Pieces with the same hash have different salts, and none of them is 0, which is that of tail keys.

    >>> salts = salts_of(np.array([42, 42, 42]), np.array([0, 3, 3]), 4)
    >>> partitions_of(np.array([42, 42, 42]), salts, 4).tolist(), len({0, *salts.tolist()})
    ([0, 3, 3], 4)
    """
    own = hashes * partitions + workers  # pieces of one key on one worker have the same number
    order = np.argsort(own, kind="stable")
    first, end = (np.searchsorted(own[order], own, side) for side in ("left", "right"))
    nth = np.empty(own.size, np.int64)
    nth[order] = np.arange(own.size)
    nth -= first
    # Every hash is reached by one salt, so pieces are given the hashes w, w + n, w + 2n, … of their worker.
    salts = value_of_hash(workers + partitions * nth, hashes)
    return np.where(salts == 0, value_of_hash(workers + partitions * (end - first), hashes), salts)
