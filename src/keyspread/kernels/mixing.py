"""From a key to a worker: 64 bits in, 64 well-mixed bits out, reduced to 0 … workers-1. A change here moves every key.

All arithmetic is unsigned and wraps around. Every constant is an np.uint64, because Numba turns a mix of signed and
unsigned 64-bit integers into floats.
"""

import math

import numpy as np

from keyspread.kernels.compilation import Floats, Int, entry, part

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: its multiples spread evenly over the 64-bit circle
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_30, _27, _31, _32 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32)


@part
def mix(x: np.uint64) -> np.uint64:
    """Mix 64 bits: every bit of the result depends on every bit of `x` (the finaliser of SplitMix64)."""
    x = (x ^ (x >> _30)) * _FIRST
    x = (x ^ (x >> _27)) * _SECOND
    return x ^ (x >> _31)


@part
def reduce(x: np.uint64, workers: Int) -> np.int64:
    """Map 64 random bits evenly to 0 … workers-1, by reading the upper 32 bits as a fraction of `workers`."""
    # upper half 0x80000000 is the fraction 1/2: of 10 workers, worker 5
    return np.int64(((x >> _32) * np.uint64(workers)) >> _32)


@part
def candidate(key: np.uint64, salt: np.uint64, number: Int, workers: Int) -> np.int64:
    """Return F_number(key). It depends on the key and on the seed (in `salt`), never on the source."""
    return reduce(mix((key ^ salt) + np.uint64(number) * GOLDEN), workers)


# The search for the number of choices (Prop. 4.1).


@part
def _prefix_fits(
    choices: int, prefix: int, prefix_mass: float, head_mass: float, workers: int, tolerance: float
) -> bool:
    """Return whether the `prefix` hottest keys, and what else falls on their workers, fit on these workers."""
    # b_h / n: the share of all workers that prefix * choices hashes reach, in expectation.
    # 2 keys, 3 choices, 10 workers: 1 - 0.9^6 = 0.47
    covered = -math.expm1(prefix * choices * math.log1p(-1.0 / workers))
    rest_of_head = math.exp(choices * math.log(covered)) * (head_mass - prefix_mass)
    tail = covered * covered * max(0.0, 1.0 - head_mass)
    return prefix_mass + rest_of_head + tail <= covered * (1.0 + workers * tolerance)


@entry
def find_choices(cumulative: Floats, workers: int, tolerance: float) -> int:
    """Return the least d >= max(2, ceil(p_1 n)) for which every prefix of the head fits; `workers` if there is none.

    `cumulative` holds the sums of the head's shares, hottest first: shares 0.3 0.1 are 0.3 0.4. Most d fail at the
    prefix where the d before failed, or at the first or the last prefix (Sec. 4.1 names these two as the tight ones),
    so those are tested first.
    """
    size = cumulative.size
    if workers < 2:
        return workers
    if size == 0:
        return 2
    head_mass = cumulative[size - 1]
    suspect = 1
    choices: int = max(2, math.ceil(cumulative[0] * workers - 1e-9))
    while choices < workers:
        failed = 0
        for prefix in (suspect, 1, size):
            if not _prefix_fits(choices, prefix, cumulative[prefix - 1], head_mass, workers, tolerance):
                failed = prefix
                break
        if failed == 0:
            for prefix in range(2, size):
                if not _prefix_fits(choices, prefix, cumulative[prefix - 1], head_mass, workers, tolerance):
                    failed = prefix
                    break
        if failed == 0:
            return choices
        suspect = failed
        choices += 1
    return workers
