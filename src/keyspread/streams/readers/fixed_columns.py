"""Formats with one message per line and a fixed separator: `time<TAB>key`, and the traces of WikiBench.

A line is a message exactly if the pattern `message` matches it. Parsing whole blocks by column only makes this fast.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from keyspread.streams.readers.lines import Lines
from keyspread.streams.readers.messages import Messages
from keyspread.streams.readers.times import NUMBER, numbers


@dataclass(frozen=True)
class FixedColumns(Lines):
    """Lines of fixed columns: `time`, `key` and perhaps others, which must not be empty; `counter` must be digits."""

    expected: str
    separator: str
    columns: tuple[str, ...]
    message: re.Pattern[bytes]
    whole_times: bool
    """Whether times stay int64 if all of them are whole numbers."""

    def parse(self, block: bytes, line: int) -> Messages:
        """Return a message for every line that `message` matches; empty lines are ignored."""
        table, bad = self._columns(block)
        rows = table.num_rows
        if "counter" in self.columns:
            table = self._complete(table)
        times, valid = numbers(table["time"].combine_chunks())
        keys = table["key"]
        if valid is not None:
            keys = keys.filter(valid)
        if len(keys) < rows:
            bad += rows - len(keys)
            # Encode again: otherwise the keys of the rejected lines would count as keys of the stream.
            keys = keys.cast(pa.binary()).dictionary_encode()
        if not self.whole_times:
            times = times.astype(np.float64)
        return Messages(times, keys, bad, self._first_malformed(block) if bad else None)

    def _first_malformed(self, block: bytes) -> tuple[int, bytes]:
        return next(
            (place, line) for place, line in enumerate(block.splitlines()) if line and not self.message.fullmatch(line)
        )

    def _columns(self, block: bytes) -> tuple[Any, int]:
        """Split at the separators; also return how many lines have too many or too few of them."""
        try:
            return self._split(block), 0
        except pa.ArrowInvalid:
            # Arrow's own handler of invalid rows fails on rows that are not UTF-8.
            lines = [line for line in block.splitlines() if line]
            separator, separators = self.separator.encode(), len(self.columns) - 1
            whole = [line for line in lines if line.count(separator) == separators]
            return self._split(b"\n".join([*whole, b""])), len(lines) - len(whole)

    def _split(self, block: bytes) -> Any:
        texts = {name: pa.string() for name in self.columns}
        # Keys stay bytes: a key that is not valid UTF-8 is still a key, and Spark hashes the same bytes.
        types = {**texts, "key": pa.dictionary(pa.int32(), pa.binary())}
        if not block.strip(b"\r\n"):
            return pa.schema(types).empty_table()
        return pa_csv.read_csv(
            pa.BufferReader(block),
            read_options=pa_csv.ReadOptions(column_names=list(self.columns), use_threads=False, block_size=len(block)),
            parse_options=pa_csv.ParseOptions(
                delimiter=self.separator, quote_char=False, escape_char=False, ignore_empty_lines=True
            ),
            convert_options=pa_csv.ConvertOptions(check_utf8=False, strings_can_be_null=False, column_types=types),
        )

    def _complete(self, table: Any) -> Any:
        """Drop lines with an empty column or with a counter that is not digits."""
        complete = pc.and_(pc.ascii_is_decimal(table["counter"]), pc.greater(pc.binary_length(table["flag"]), 0))
        if any(pc.index(chunk.dictionary, b"").as_py() >= 0 for chunk in table["key"].chunks):
            complete = pc.and_(complete, pc.not_equal(table["key"].cast(pa.binary()), b""))
        return table if pc.all(complete, min_count=0).as_py() else table.filter(complete)


_NUMBER = NUMBER.encode()

TSV = FixedColumns(
    expected="time<TAB>key",
    separator="\t",
    columns=("time", "key"),
    message=re.compile(_NUMBER + rb"\t[^\t\r\n]*"),
    whole_times=True,
)

WIKIBENCH = FixedColumns(
    expected="'counter time url flag', separated by single spaces",
    separator=" ",
    columns=("counter", "time", "key", "flag"),
    message=re.compile(rb"\d+ " + _NUMBER + rb" [^ \r\n]+ [^ \r\n]+"),
    whole_times=False,
)
