"""Salts: numbers behind the join keys that make Spark's own exchange send a row to the worker that a plan wants.

Spark hashes several columns one after the other: the hash of the first ones is the seed for the next. So Spark's hash
of a key alone is enough to know its hash with any salt, and salts are found here without asking Spark.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from keyspread.spark.routing.tags import spark_hash

Numbers = npt.NDArray[np.int64]


def partitions_of(hashes: Numbers, salts: Numbers, partitions: int) -> Numbers:
    """Return where Spark puts keys with these hashes and salts.

    >>> partitions_of(np.array([42]), np.array([12]), 4)  # 42 is the hash of a null; see `tags`
    array([0])
    """
    found: Numbers = spark_hash(salts, hashes) % partitions
    return found


def salts_of(hash_: int, workers: Sequence[int], partitions: int) -> list[int]:
    """Return a salt for each worker in the list, all different and none of them 0, which is that of tail keys.

    >>> salts = salts_of(42, [0, 3, 3], 4)
    >>> partitions_of(np.full(3, 42), np.array(salts), 4).tolist(), len(set(salts))
    ([0, 3, 3], 3)
    """
    wanted = np.asarray(workers, np.int64)
    own = np.bincount(wanted, minlength=partitions)
    tried = 16 * partitions + 8 * wanted.size
    while True:
        salts = np.arange(1, tried + 1, dtype=np.int64)
        where = partitions_of(np.full(tried, hash_, np.int64), salts, partitions)
        if (np.bincount(where, minlength=partitions) >= own).all():
            break
        tried *= 2
    by_worker = np.argsort(where, kind="stable")
    first = np.searchsorted(where[by_worker], np.arange(partitions))
    order = np.argsort(wanted, kind="stable")
    nth = np.arange(wanted.size) - np.searchsorted(wanted[order], wanted[order])  # of the pieces of one worker
    found = np.empty(wanted.size, np.int64)
    found[order] = salts[by_worker[first[wanted[order]] + nth]]
    return found.tolist()
