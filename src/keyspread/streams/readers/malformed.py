"""What is said of lines that are no messages: how many, and the first of them. Nothing is dropped silently."""

from dataclasses import dataclass

_SHOWN = 80


@dataclass(frozen=True)
class Malformed:
    """Lines that are not what the format says: how many, and the first of them (numbered from 1).

    `first_file` is the file it stands in where a stream was read from a folder or pattern, else None.
    """

    count: int = 0
    first_line_number: int | None = None
    first_text: str | None = None
    first_file: str | None = None

    def __str__(self) -> str:
        """One line for people, to put behind the file's name."""
        if not self.count:
            return "no malformed lines"
        where = f"line {self.first_line_number}" + (f" of {self.first_file}" if self.first_file else "")
        if self.count == 1:
            return f"1 malformed line, {where}: {self.first_text!r}"
        return f"{self.count} malformed lines, the first is {where}: {self.first_text!r}"


def shown(line: bytes) -> str:
    """Text of a line for people, cut where it is long."""
    text = line[: 4 * _SHOWN].decode("utf-8", "replace").rstrip("\r\n")
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
