"""The ways to use the library on a stream. Each says what the query does and what plain Python says it must write."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from faults.gates import BEGUN, MOMENTS, READING, WRITTEN, wait_at
from faults.operators import Total, TypedTotal, this_batch
from faults.plain import Answer, batch_totals, closed_windows, ordered, running_totals, totals
from faults.streams import Batches

WORKERS = 3
SECOND = 1_000_000
WAYS: dict[str, "Way"] = {}  # by name, in the order of this file
END = -1  # the number under which the answer at the end of the query is written


@dataclass(frozen=True)
class Place:
    """Where the query of a schedule works."""

    folder: Path
    state: Path  # its checkpoint and its totals, which may be on a disk that gets full
    sliding: bool

    @property
    def table(self) -> str:
        """The folder of totals."""
        return str(self.state / "table")


class Way:
    """A streaming query with a sink that writes each batch; subclasses change the stream or the sink."""

    name: ClassVar[str]
    mode: ClassVar[str] = "append"
    moments: ClassVar[tuple[str, ...]] = MOMENTS
    shuffled: ClassVar[bool] = False  # has a shuffle upstream of a spread: then Spark's protection may be off

    def __init_subclass__(cls) -> None:
        """List every way."""
        WAYS[cls.name] = cls()

    def stream(self, rows: Any, place: Place) -> Any:
        """Return the stream that the sink gets."""
        return rows

    def batch(self, rows: Any, number: int, place: Place) -> Answer | None:
        """Return what the sink writes of a batch, or None if nothing."""
        return [list(row) for row in rows.collect()]

    def end(self, spark: Any, place: Place) -> Answer | None:
        """Return what is written after the last batch, or None if nothing."""
        return None

    def expected(self, batches: Batches, place: Place) -> dict[int, Answer]:
        """Return the rows of every batch in order."""
        raise NotImplementedError

    def found(self, written: dict[int, Answer]) -> dict[int, Answer]:
        """Return what was written, in the form of `expected`."""
        return written


class RunningTotals(Way):
    """Running totals of an operator with a pickled state."""

    name = "totals, pickled"
    mode = "update"
    operator: ClassVar[type[Total]] = Total

    def stream(self, rows: Any, place: Place) -> Any:
        from keyspread.spark import aggregate

        return aggregate(rows, "key", self.operator(str(place.folder)), WORKERS)

    def expected(self, batches: Batches, place: Place) -> dict[int, Answer]:
        return dict(enumerate(running_totals(batches)))


class TypedRunningTotals(RunningTotals):
    """Running totals of an operator with a typed state."""

    name = "totals, typed"
    operator = TypedTotal


class Windows(Way):
    """Tumbling or sliding windows of an operator with a typed state, each written once."""

    name = "windows, typed"

    def stream(self, rows: Any, place: Place) -> Any:
        from keyspread.spark import aggregate

        length, slide = self.lengths(place)
        out = aggregate(
            rows.withWatermark("time", "5 seconds"),
            "key",
            TypedTotal(str(place.folder)),
            WORKERS,
            window=f"{length} seconds",
            slide=f"{slide} seconds",
        )
        return out.selectExpr("unix_micros(window.end)", "key", "n", "total")

    def lengths(self, place: Place) -> tuple[int, int]:
        return (20, 10) if place.sliding else (10, 10)

    def expected(self, batches: Batches, place: Place) -> dict[int, Answer]:
        length, slide = self.lengths(place)
        return {END: closed_windows(batches, length * SECOND, slide * SECOND)}

    def found(self, written: dict[int, Answer]) -> dict[int, Answer]:
        return {END: ordered(row for rows in written.values() for row in rows)}


class OperatorTotals(Way):
    """`Totals` of an operator."""

    name = "Totals, operator"
    moments = MOMENTS

    def totals(self, place: Place, number: int = 0) -> Any:
        from keyspread.spark import Totals

        return Totals(place.table, "key", Total(str(place.folder)), WORKERS, merge_every=3)

    def batch(self, rows: Any, number: int, place: Place) -> Answer | None:
        self.totals(place, number)(rows, number)
        return None

    def end(self, spark: Any, place: Place) -> Answer | None:
        return [list(row) for row in self.totals(place).read(spark).collect()]

    def expected(self, batches: Batches, place: Place) -> dict[int, Answer]:
        rows = [row for batch in batches for row in batch]
        return {END: ordered((key, *both) for key, both in totals(rows).items())}


class SpreadStream(Way):
    """`spread` of a stream by look-ahead: every id once, and on the same worker in every attempt of a batch."""

    name = "spread, look-ahead"
    scheme: ClassVar[str | None] = None

    def stream(self, rows: Any, place: Place) -> Any:
        from keyspread.spark import spread

        out = spread(rows, "key", WORKERS, self.scheme)
        return out.mapInArrow(reader(str(place.folder)), "id bigint, worker int")

    def expected(self, batches: Batches, place: Place) -> dict[int, Answer]:
        return {number: ordered([row.id] for row in batch) for number, batch in enumerate(batches)}

    def found(self, written: dict[int, Answer]) -> dict[int, Answer]:
        return {number: ordered(row[:1] for row in rows) for number, rows in written.items()}


class SpreadStreamOnline(SpreadStream):
    """`spread` of a stream by an online scheme."""

    name = "spread, d-choices"
    scheme = "d-choices"


class SpreadShuffled(SpreadStream):
    """`spread` of a batch behind a shuffle, by a plan: every id once."""

    name = "shuffle → planned"
    shuffled = True

    def stream(self, rows: Any, place: Place) -> Any:
        return rows

    def batch(self, rows: Any, number: int, place: Place) -> Answer | None:
        from keyspread.spark import spread

        out = spread(rows.repartition(4, "id"), "key", WORKERS, self.scheme)
        read = out.mapInArrow(reader(str(place.folder), number), "id bigint, worker int")
        # The order of rows behind a shuffle is not fixed, and neither is then the worker of a row.
        return [[row.id] for row in read.collect()]


class SpreadShuffledOnline(SpreadShuffled):
    """`spread` of a batch behind a shuffle, by an online scheme."""

    name = "shuffle → d-choices"
    scheme = "d-choices"


class BoundedAggregate(Way):
    """`aggregate` of a bounded batch by an operator."""

    name = "aggregate, operator"
    scheme: ClassVar[str | None] = None

    def batch(self, rows: Any, number: int, place: Place) -> Answer | None:
        from keyspread.spark import aggregate

        out = aggregate(rows, "key", Total(str(place.folder), number), WORKERS, self.scheme)
        return [list(row) for row in out.collect()]

    def expected(self, batches: Batches, place: Place) -> dict[int, Answer]:
        return dict(enumerate(batch_totals(batches)))


class BoundedAggregateScheme(BoundedAggregate):
    """`aggregate` of a bounded batch by an operator, routed by a scheme that learns online."""

    name = "aggregate, d-choices"
    scheme = "d-choices"


class SqlAggregate(RunningTotals):
    """The control: SQL aggregates of a stream, by Spark alone."""

    name = "groupBy, SQL"
    moments = (BEGUN, WRITTEN)

    def stream(self, rows: Any, place: Place) -> Any:
        from pyspark.sql import functions as F

        return rows.groupBy("key").agg(F.count("*").alias("n"), F.sum("value").alias("total"))


def reader(folder: str, number: int | None = None) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return the work of a worker: report that it reads, perhaps wait, return its ids with its number."""

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        where = TaskContext.get().partitionId()
        for batch in batches:
            wait_at(folder, this_batch() if number is None else number, READING)
            at = pa.array([where] * batch.num_rows, pa.int32())
            yield pa.RecordBatch.from_arrays([batch.column("id"), at], ["id", "worker"])

    return read
