"""The frame around everything that keyspread stores as bytes: what it is, whether it is intact, and its format.

4 bytes   magic: what the content is
8 bytes   xxh64 of everything that follows
1 byte    version of the content's format
rest      the content
"""

from dataclasses import dataclass

import xxhash

from keyspread.errors import SnapshotError

_CHECKSUM = slice(4, 12)
_VERSION = 12


@dataclass(frozen=True)
class Frame:
    """One kind of content: bytes that `seal` did not return are never opened, nor are those of another version."""

    magic: bytes
    version: int
    what: str
    """What the content is called in errors."""
    origin: str
    """The call that returns such bytes."""

    def seal(self, content: bytes) -> bytes:
        """Put the frame around the content."""
        body = bytes([self.version]) + content
        return self.magic + xxhash.xxh64_digest(body) + body

    def open(self, data: bytes) -> bytes:
        """Return the content; refuse bytes that are damaged, foreign or of another version."""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise SnapshotError(f"{self.what} is bytes, got {type(data).__name__}; pass what {self.origin} returned")
        data = bytes(data)
        if not data.startswith(self.magic):
            raise SnapshotError(
                f"not {self.what}: it starts with {data[: len(self.magic)]!r}, not {self.magic!r}; "
                f"pass what {self.origin} returned"
            )
        if len(data) <= _VERSION or data[_CHECKSUM] != xxhash.xxh64_digest(memoryview(data)[_VERSION:]):
            raise SnapshotError(
                f"{self.what} of {len(data)} bytes is damaged or cut short: use an earlier one, or start without one"
            )
        if data[_VERSION] != self.version:
            raise SnapshotError(
                f"{self.what} has format {data[_VERSION]}, this keyspread reads {self.version}: "
                "use the version of keyspread that wrote it"
            )
        return data[_VERSION + 1 :]
