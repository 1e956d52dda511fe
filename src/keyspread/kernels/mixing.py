"""From a key to a worker: 64 bits in, 64 well-mixed bits out, reduced to 0 … workers-1. A change here moves every key.

All arithmetic is unsigned and wraps around. Every constant is an np.uint64, because Numba turns a mix of signed and
unsigned 64-bit integers into floats.
"""

import numpy as np

from keyspread.kernels.array_types import Int
from keyspread.kernels.compilation import part

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
