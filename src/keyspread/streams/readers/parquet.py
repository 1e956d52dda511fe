"""Parquet files: row after row of two columns, whatever else is in the file."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from keyspread.errors import InputError
from keyspread.streams.readers.columns import check_column
from keyspread.streams.readers.messages import Messages
from keyspread.streams.readers.times import column_times

MAGIC = b"PAR1"
_BATCH = 1 << 18
"""Rows that are in memory at once."""


@dataclass(frozen=True)
class Rows:
    """Some rows of a Parquet file; one without a time, where one is asked for, is malformed."""

    batch: Any
    first_line: int
    key: str
    time: str | None
    share: float
    """Of the file's rows, those up to the last of these."""

    @property
    def expected(self) -> str:
        """What each row must have."""
        return f"a time in {self.time!r}"

    def count(self) -> int:
        """Count the rows."""
        return int(self.batch.num_rows)

    def parse(self, lines: int | None = None) -> Messages:
        """Give the messages of the first rows."""
        batch = self.batch.slice(0, lines)
        keys = batch.column(self.key)
        if pa.types.is_dictionary(keys.type):
            keys = keys.cast(keys.type.value_type)  # it may have entries that no row has
        if self.time is None:
            return Messages(None, keys)
        times, valid = column_times(batch.column(self.time))
        if valid is None:
            return Messages(times, keys)
        first = valid.index(pa.scalar(False)).as_py()
        without = batch.column(self.time)[first].as_py()
        return Messages(
            times,
            keys.filter(valid),
            len(valid) - len(times),
            (first, f"{self.time} = {'null' if without is None else without}".encode()),
        )


def parquet_rows(path: str, file: BinaryIO, key: str | None, time: str | None) -> Iterator[Rows]:
    """Read a file's rows in order, some at a time."""
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(file)
        schema = table.schema_arrow
        check_column(path, "key", key, schema.names)
        if time is not None:
            check_column(path, "time", time, schema.names)
            try:
                column_times(pa.array([], schema.field(time).type))
            except TypeError as error:
                raise InputError(
                    f"{path}: column {time!r} holds {error}: name a column of numbers, timestamps or dates"
                ) from None
        line = 1
        for batch in table.iter_batches(_BATCH, columns=list({str(key), time or str(key)})):
            end = line + batch.num_rows
            yield Rows(batch, line, str(key), time, (end - 1) / table.metadata.num_rows)
            line = end
    except (pa.ArrowException, OSError) as error:
        problem = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path}: broken Parquet file ({problem}): fetch or write the file again") from error
