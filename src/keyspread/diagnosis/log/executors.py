"""Executors over time: with dynamic allocation they come and go, and only those that are there run tasks."""

import numpy as np

_FOREVER = 2**62


class Executors:
    """The cores of every executor, from when it was added until it was removed (ms since 1970)."""

    def __init__(self) -> None:
        self._present: dict[str, tuple[int, int]] = {}  # executor -> cores, added
        self._gone: list[tuple[int, int, int]] = []  # cores, added, removed
        self._steps: tuple[list[int], list[int]] | None = None

    def add(self, name: str, cores: int, time: int | None) -> None:
        """Take an executor that was added; one that is there already stays."""
        if name not in self._present:
            self._present[name] = (cores, time or 0)
            self._steps = None

    def remove(self, name: str, time: int) -> None:
        """Take an executor that was removed."""
        if name in self._present:
            cores, added = self._present.pop(name)
            self._gone.append((cores, added, time))
            self._steps = None

    def cores(self, start: int, end: int) -> int:
        """Return the most cores that were there at once between two times."""
        times, cores = self._over_time()
        first = int(np.searchsorted(times, start, side="right")) - 1
        last = int(np.searchsorted(times, end, side="right"))
        return max(cores[max(first, 0) : last], default=0)

    def _over_time(self) -> tuple[list[int], list[int]]:
        """Return the times at which the number of cores changed, and the cores from then on."""
        if self._steps is None:
            there = [(cores, added, _FOREVER) for cores, added in self._present.values()]
            changes: dict[int, int] = {}
            for cores, added, removed in (*self._gone, *there):
                changes[added] = changes.get(added, 0) + cores
                changes[max(removed, added)] = changes.get(max(removed, added), 0) - cores
            times = sorted(changes)
            self._steps = times, [int(one) for one in np.cumsum([changes[time] for time in times])]
        return self._steps
