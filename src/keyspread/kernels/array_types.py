"""Types of what kernels take and return. Numba ignores annotations: these are for readers and for mypy.

The element types are a contract, though: a kernel is compiled once per combination of element types, so a caller
that passes another one waits for a compilation.
"""

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]
"""Hashes of keys. Unsigned, because mixing is arithmetic modulo 2^64."""

Bits = npt.NDArray[np.uint64]
"""Rows of bits, one bit per worker: worker w is bit w % 64 of word w // 64."""

Counts = npt.NDArray[np.int64]
"""Loads, counts, weights: whole numbers that may be large."""

Indices = npt.NDArray[np.int32]
"""Numbers of workers, counters or rows. -1 stands for none."""

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

Int = int | np.int32 | np.int64
"""One whole number. Compiled, a Python int is an np.int64; interpreted, they are different types."""
