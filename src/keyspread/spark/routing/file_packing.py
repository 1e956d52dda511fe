"""Packing of files onto writers: as few files as the target size allows, and writers with even loads.

A value of the partition columns that is larger than the target is cut into equal files of at most the target size.
Files go to writers, largest first, each to the least loaded one. The number of writers is the largest one for which
that comes out even.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_EVEN = 1.1  # the busiest writer, as a multiple of the mean load
_STEP = 0.9  # between the numbers of writers that are tried


@dataclass(frozen=True)
class PackedFiles:
    """The files of each value, in the order of the values: their writers, once per file. `loads` are in bytes."""

    writers: int
    files: list[list[int]]
    loads: list[float]

    @property
    def busiest(self) -> float:
        """The largest load of a writer, as a multiple of the mean."""
        return max(self.loads) * len(self.loads) / max(sum(self.loads), 1e-9)


def fewest_files(sizes: Sequence[float], target: float, writers: int | None = None) -> int:
    """Return the number of files: the size of each value, rounded up to whole files, at most one per writer.

    >>> fewest_files([10, 250, 100], target=100)
    5
    """
    whole = np.maximum(np.ceil(np.asarray(sizes, float) / target - 1e-9), 1)
    return int(np.minimum(whole, np.inf if writers is None else writers).sum())


def pack(sizes: Sequence[float], target: float, file_cost: float, writers: int | None = None) -> PackedFiles:
    """Return the files of values with these sizes, on `writers` writers or on as many as can be even.

    >>> packed = pack([400, 60, 40], target=100, file_cost=0)
    >>> packed.writers, packed.files[0], packed.loads
    (5, [0, 1, 2, 3], [100.0, 100.0, 100.0, 100.0, 100.0])
    """
    if writers is not None:
        return _placed(sizes, target, writers, file_cost)
    tried = max(1, int(np.ceil(sum(sizes) / target - 1e-9)))
    best = _placed(sizes, target, tried, file_cost)
    # A value has one file per writer: with fewer writers than it has files, they would be larger than the target.
    least = max((files_of(size, target) for size in sizes), default=1)
    while best.busiest > _EVEN and tried > least:
        tried = max(least, min(tried - 1, int(tried * _STEP)))
        fewer = _placed(sizes, target, tried, file_cost)
        best = fewer if fewer.busiest < best.busiest else best
    return best


def files_of(size: float, target: float) -> int:
    """Return the number of files of a value.

    >>> files_of(250, target=100), files_of(0, target=100)
    (3, 1)
    """
    return max(1, int(np.ceil(size / target - 1e-9)))


def _placed(sizes: Sequence[float], target: float, writers: int, file_cost: float) -> PackedFiles:
    """Place the files of each value on the least loaded writers, the largest files first."""
    # Two files of one value on one writer would be one file.
    parts = [(size / many, many) for size in sizes for many in [min(files_of(size, target), writers)]]
    heap = [(0.0, 0, writer) for writer in range(writers)]
    files: list[list[int]] = [[] for _ in sizes]
    for number in sorted(range(len(sizes)), key=lambda one: (-parts[one][0], one)):
        size, many = parts[number]
        taken = [heapq.heappop(heap) for _ in range(many)]
        files[number] = [writer for _, _, writer in taken]
        for load, own, writer in taken:
            heapq.heappush(heap, (load + size + file_cost, own + 1, writer))
    loads = [0.0] * writers
    for load, _, writer in heap:
        loads[writer] = load
    return PackedFiles(writers, files, loads)
