"""Spans of time that may overlap: queries run side by side, and no second may be counted twice."""

from array import array

import numpy as np


class Spans:
    """Spans in milliseconds, 16 bytes each."""

    def __init__(self) -> None:
        self._starts, self._ends = array("d"), array("d")

    def add(self, start: float, end: float) -> None:
        """Take one more span."""
        self._starts.append(start)
        self._ends.append(max(start, end))

    def extend(self, other: "Spans") -> None:
        """Take all spans of another."""
        self._starts.extend(other._starts)
        self._ends.extend(other._ends)

    @property
    def seconds(self) -> float:
        """Return the time that at least one of the spans covers."""
        if not len(self._starts):
            return 0.0
        starts, ends = np.array(self._starts), np.array(self._ends)
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
        # What is covered before each span began: the latest end so far.
        before = np.concatenate([[starts[0]], np.maximum.accumulate(ends)[:-1]])
        return float(np.maximum(ends - np.maximum(starts, before), 0.0).sum()) / 1e3

    @property
    def overlap(self) -> bool:
        """Tell whether some of them cover the same time."""
        return float(np.sum(np.array(self._ends) - np.array(self._starts))) / 1e3 > self.seconds + 1e-3
