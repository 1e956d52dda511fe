"""Tasks as columns of integers: about 150 bytes per task, whatever the log says about it."""

from array import array

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

SUCCEEDED, FAILED, KILLED, RUNNING = 0, 1, 2, 3

COLUMNS = (
    "index",
    "launch",
    "finish",
    "outcome",
    "speculative",
    "executor",
    "shuffle_rows",
    "shuffle_bytes",
    "input_rows",
    "input_bytes",
    "output_rows",
    "written_rows",
    "spilled",
    "gc",
)
"""What is kept of a task. Times are milliseconds since 1970, durations milliseconds."""


class TaskTable:
    """The attempts of all tasks of one stage. Column c has the value of attempt i at `column(c)[i]`."""

    def __init__(self) -> None:
        self._columns = {name: array("q") for name in COLUMNS}
        self._measured: dict[int, array[int]] = {}

    def __len__(self) -> int:
        """Return the number of attempts."""
        return len(self._columns["index"])

    def append(self, values: tuple[int, ...], measured: dict[int, int]) -> None:
        """Add one attempt: its values in the order of COLUMNS, and the accumulators that a plan names."""
        row = array("q", values)  # overflows before any column has grown
        array("q", measured.values())
        before = len(self)
        for column, value in zip(self._columns.values(), row, strict=True):
            column.append(value)
        for accumulator, value in measured.items():
            column = self._measured.setdefault(accumulator, array("q"))
            column.extend([0] * (before - len(column)))
            column.append(value)

    def column(self, name: str) -> Ints:
        """Return one column of COLUMNS."""
        return np.frombuffer(self._columns[name], dtype=np.int64) if len(self) else np.zeros(0, dtype=np.int64)

    def measured(self, accumulator: int) -> Ints | None:
        """Return what every attempt added to an accumulator, None if no attempt did."""
        column = self._measured.get(accumulator)
        if column is None:
            return None
        values = np.zeros(len(self), dtype=np.int64)
        values[: len(column)] = np.frombuffer(column, dtype=np.int64)
        return values

    @property
    def accumulators(self) -> set[int]:
        """Return the accumulators that some attempt added to."""
        return set(self._measured)
