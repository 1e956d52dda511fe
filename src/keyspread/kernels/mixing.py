"""64 bits in, 64 well-mixed bits out, and from those a worker. Changing anything here moves every key.

All arithmetic is unsigned and wraps around; every constant is a np.uint64, because Numba turns a mix of signed
and unsigned 64-bit integers into floats.
"""

from typing import Any

import numpy as np

from keyspread.kernels.compilation import part

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: its multiples spread evenly over the 64-bit circle
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_30, _27, _31, _32 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32)


@part
def mix(x: Any) -> Any:
    """Every bit of the result depends on every bit of `x` (the finaliser of SplitMix64)."""
    x = (x ^ (x >> _30)) * _FIRST
    x = (x ^ (x >> _27)) * _SECOND
    return x ^ (x >> _31)


@part
def reduce(x: Any, workers: Any) -> Any:
    """Map 64 random bits evenly to 0 … workers-1: the upper 32 bits are read as a fraction of `workers`."""
    return np.int64(((x >> _32) * np.uint64(workers)) >> _32)


@part
def candidate(key: Any, salt: Any, number: Any, workers: Any) -> Any:
    """F_number(key): depends on the key and the seed (in `salt`), never on the source."""
    return reduce(mix((key ^ salt) + np.uint64(number) * GOLDEN), workers)
