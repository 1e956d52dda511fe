"""The operators of the campaign: count and sum, with a pickled and with a typed state."""

from typing import Any

from keyspread import Operator

from faults.gates import READING, wait_at


class Total(Operator[Any]):
    """The count and sum of a key, kept pickled; the first update of a task may wait at a gate."""

    schema = "n bigint, total bigint"

    def __init__(self, folder: str, batch: int | None = None) -> None:
        self.folder, self.batch = folder, batch

    def zero(self) -> Any:
        """Return the state of no rows."""
        return {"n": 0, "total": 0}

    def update(self, state: Any, rows: Any) -> Any:
        """Count the rows."""
        wait_at(self.folder, this_batch() if self.batch is None else self.batch, READING)
        return {"n": state["n"] + len(rows), "total": state["total"] + int(rows["value"].sum())}

    def merge(self, state: Any, other: Any) -> Any:
        """Add both."""
        return {"n": state["n"] + other["n"], "total": state["total"] + other["total"]}

    def finish(self, state: Any) -> dict[str, Any]:
        """Return count and sum."""
        return dict(state)


class TypedTotal(Total):
    """The same, with a state of columns."""

    state = "n bigint, total bigint"


def this_batch() -> int:
    """Return the number of the micro-batch that this task belongs to."""
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None
    return int(task.getLocalProperty("streaming.sql.batchId") or 0)
