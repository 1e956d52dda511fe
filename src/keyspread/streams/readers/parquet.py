"""Parquet files: only the key and time columns are read, batch by batch."""

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
"""Rows in memory at once."""


@dataclass(frozen=True)
class Rows:
    """A batch of rows of a Parquet file. If a time column is given, a row without a time is malformed."""

    batch: Any
    first_line: int
    key: str
    time: str | None
    share: float
    """Share of the file's rows that have been read, including this batch."""

    @property
    def expected(self) -> str:
        """Description of a valid row, for error messages."""
        return f"a time in {self.time!r}"

    def count(self) -> int:
        """Count the rows."""
        return int(self.batch.num_rows)

    def parse(self, lines: int | None = None) -> Messages:
        """Return the messages of the first `lines` rows, of all if None."""
        batch = self.batch.slice(0, lines)
        keys = batch.column(self.key)
        if pa.types.is_dictionary(keys.type):
            keys = keys.cast(keys.type.value_type)  # the dictionary may have entries that no row uses
        if self.time is None:
            return Messages(None, keys)
        times, valid = column_times(batch.column(self.time))
        if valid is None:
            return Messages(times, keys)
        first = valid.index(pa.scalar(False)).as_py()
        bad = batch.column(self.time)[first].as_py()
        return Messages(
            times,
            keys.filter(valid),
            len(valid) - len(times),
            (first, f"{self.time} = {'null' if bad is None else bad}".encode()),
        )


def parquet_rows(path: str, file: BinaryIO, key: str | None, time: str | None) -> Iterator[Rows]:
    """Read the rows of a file in order, in batches."""
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
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        problem = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path}: broken Parquet file ({problem}): download or write the file again") from error
