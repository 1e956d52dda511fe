"""Tags: integers that lead the rows of a stateful operator to the state partition we choose.

Spark puts the rows of a stateful operator where the hash of their grouping key says, so that they meet their state
again. Rows that are grouped by the tag of partition w are in state partition w.
"""

from functools import lru_cache

_MASK = 0xFFFFFFFF


@lru_cache(maxsize=16)
def tags_of(partitions: int) -> tuple[int, ...]:
    """Return the tag of every partition: the smallest integer that Spark hashes to it.

    >>> tags_of(4)
    (12, 6, 2, 0)
    """
    found: dict[int, int] = {}
    tag = 0
    while len(found) < partitions:
        found.setdefault(_spark_hash(tag) % partitions, tag)
        tag += 1
    return tuple(found[partition] for partition in range(partitions))


def _spark_hash(value: int) -> int:
    """Return Spark's `hash` of an INT: Murmur3 of its four bytes with seed 42, as a signed number."""
    mixed = _rotate(value * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    state = (_rotate(42 ^ mixed, 13) * 5 + 0xE6546B64) & _MASK
    state ^= 4  # bytes
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _rotate(value: int, places: int) -> int:
    return (value << places | value >> 32 - places) & _MASK
