"""Formats with one message a line and a fixed separator: `time<TAB>key`, and the traces of WikiBench.

A line is a message exactly if `message` matches it; parsing whole blocks in columns only makes that fast. What may
be changed here: further formats of this kind.
"""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from keyspread.streams.readers.messages import Messages
from keyspread.streams.readers.times import NUMBER, numbers


class Lines(ABC):
    """A text format where each line is a record of its own."""

    expected: str
    nothing = "the file is empty"

    def cut(self, view: bytes) -> int:
        """Find the end of the last whole record; 0 if there is none."""
        return view.rfind(b"\n") + 1

    def begin(self, block: bytes) -> int:
        """Look at a block before it is parsed; gives the bytes of the header at its beginning."""
        return 0

    def split(self, block: bytes) -> list[bytes]:
        """Give the records, with their ends, the empty ones included."""
        return block.splitlines(keepends=True)

    @abstractmethod
    def parse(self, block: bytes, line: int) -> Messages:
        """Give the messages of a block of whole records, which begins at this line of the file."""

    def end(self) -> None:
        """Check what can only be known when all has been read."""
        return  # mostly nothing


def count_lines(block: bytes) -> int:
    """Count line ends; '\\r\\n' ends one line, not two."""
    return block.count(b"\n") + block.count(b"\r") - block.count(b"\r\n")


@dataclass(frozen=True)
class Separated(Lines):
    """Lines of fixed columns, among them `time` and `key`; the others must not be empty, `counter` has digits."""

    expected: str
    separator: str
    columns: tuple[str, ...]
    message: re.Pattern[bytes]
    whole_times: bool
    """Times stay int64 where all are whole."""

    def parse(self, block: bytes, line: int) -> Messages:
        """Every line that `message` matches is one; empty lines are ignored."""
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
            # Encoded anew, or the keys of the lines left out would count as keys of the stream.
            keys = keys.cast(pa.binary()).dictionary_encode()
        if not self.whole_times:
            times = times.astype(np.float64)
        return Messages(times, keys, bad, self._first_malformed(block) if bad else None)

    def _first_malformed(self, block: bytes) -> tuple[int, bytes]:
        return next(
            (place, line) for place, line in enumerate(block.splitlines()) if line and not self.message.fullmatch(line)
        )

    def _columns(self, block: bytes) -> tuple[Any, int]:
        """Split at the separators; how many lines had too many or too few of them."""
        try:
            return self._split(block), 0
        except pa.ArrowInvalid:
            # Not Arrow's own handler of invalid rows: it fails on rows that are not UTF-8.
            lines = [line for line in block.splitlines() if line]
            separator, separators = self.separator.encode(), len(self.columns) - 1
            kept = [line for line in lines if line.count(separator) == separators]
            return self._split(b"\n".join([*kept, b""])), len(lines) - len(kept)

    def _split(self, block: bytes) -> Any:
        texts = {name: pa.string() for name in self.columns}
        # Bytes as they are: a key that is not UTF-8 is still a key, and hashes as those bytes in Spark.
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
        """Leave out lines with an empty column, or a counter that is none."""
        complete = pc.and_(pc.ascii_is_decimal(table["counter"]), pc.greater(pc.binary_length(table["flag"]), 0))
        if any(pc.index(chunk.dictionary, b"").as_py() >= 0 for chunk in table["key"].chunks):
            complete = pc.and_(complete, pc.not_equal(table["key"].cast(pa.binary()), b""))
        return table if pc.all(complete, min_count=0).as_py() else table.filter(complete)


_NUMBER = NUMBER.encode()

TSV = Separated(
    expected="time<TAB>key",
    separator="\t",
    columns=("time", "key"),
    message=re.compile(_NUMBER + rb"\t[^\t\r\n]*"),
    whole_times=True,
)

WIKIBENCH = Separated(
    expected="'counter time url flag', separated by single blanks",
    separator=" ",
    columns=("counter", "time", "key", "flag"),
    message=re.compile(rb"\d+ " + _NUMBER + rb" [^ \r\n]+ [^ \r\n]+"),
    whole_times=False,
)
