"""Text files: what a text format must provide, and how a file is cut into blocks of whole records.

A record is one line in all formats but CSV, where a quoted value may contain line breaks.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from keyspread.streams.readers.messages import Messages

_BLOCK = 1 << 22
"""Bytes of text that are parsed at once. Memory use is a few blocks, 16 bytes per message, and the distinct keys."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Lines(ABC):
    """A text format. By default each line is one record and there is no header."""

    expected: str
    """Description of a valid line, for error messages."""
    nothing = "the file is empty"
    """The reason given if the file has neither a message nor a malformed line."""

    def cut(self, view: bytes) -> int:
        """Return the end of the last whole record, 0 if there is none."""
        return view.rfind(b"\n") + 1

    def begin(self, block: bytes) -> int:
        """Look at a block before it is parsed; return the number of header bytes at its start."""
        return 0

    def split(self, block: bytes) -> list[bytes]:
        """Return the records with their line ends, including empty ones."""
        return block.splitlines(keepends=True)

    @abstractmethod
    def parse(self, block: bytes, line: int) -> Messages:
        """Return the messages of a block of whole records; `line` is the number of its first line in the file."""

    def end(self) -> None:
        """Check what is known only after the whole file has been read."""
        return  # most formats have nothing to check


@dataclass(frozen=True)
class Block:
    """Whole records of a text file, without the header."""

    format: Lines
    text: bytes
    first_line: int
    last_line: int

    @property
    def expected(self) -> str:
        """Description of a valid line, for error messages."""
        return self.format.expected

    def count(self) -> int:
        """Count the records, including empty ones."""
        return len(self.format.split(self.text))

    def parse(self, lines: int | None = None) -> Messages:
        """Return the messages of the first `lines` records, of all if None."""
        text = self.text if lines is None else b"".join(self.format.split(self.text)[:lines])
        return self.format.parse(text, self.first_line)


def count_lines(block: bytes) -> int:
    """Count line ends; '\\r\\n' is one line end."""
    return block.count(b"\n") + block.count(b"\r") - block.count(b"\r\n")


def read_pieces(file: BinaryIO) -> Iterator[bytes]:
    """Read a file piece by piece, without its byte order mark. Only the first piece may be empty."""
    piece = file.read(_BLOCK).removeprefix(_BYTE_ORDER_MARK)
    yield piece
    while piece := file.read(_BLOCK):
        yield piece


def cut_blocks(pieces: Iterator[bytes], format: Lines) -> Iterator[Block]:
    """Cut the pieces of a file into blocks of whole records."""
    parts: list[bytes] = []
    line = 0
    for piece in pieces:
        parts.append(piece)
        if b"\n" in piece:
            view = b"".join(parts)
            end = format.cut(view)
            parts = [view[end:]]
            if end:
                yield (block := _block(format, view[:end], line))
                line = block.last_line
    if rest := b"".join(parts):
        yield _block(format, rest, line)


def _block(format: Lines, text: bytes, lines_before: int) -> Block:
    """Remove the header and number the lines."""
    header = format.begin(text)
    lines = lines_before + count_lines(text[:header])
    text = text[header:]
    unended = bool(text) and not text.endswith((b"\n", b"\r"))  # the last line of a file may lack its line end
    return Block(format, text, lines + 1, lines + count_lines(text) + unended)
