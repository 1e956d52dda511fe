"""The recipe of a stream in files: where the files are and how to read them. A simulation reads them where it runs."""

import os
from dataclasses import dataclass
from typing import Any

from keyspread.streams.encoded import Encoded
from keyspread.streams.readers.files import read_stream
from keyspread.streams.readers.paths import find_files


@dataclass(frozen=True)
class FileStream:
    """The messages of a file, folder or pattern, in order; with `limit`, only the first so many."""

    path: str
    format: str | None = None
    key: str | None = None
    time: str | None = None
    limit: int | None = None

    @property
    def title(self) -> str:
        """Short name for reports and plots."""
        return os.path.basename(self.path.rstrip("/")) or self.path

    def parameters(self) -> dict[str, Any]:
        """Return everything that determines the stream; sizes and modification times stand for the content of files."""
        files = [os.stat(name) for name in find_files(self.path)]
        return {
            "stream": self.title,
            "path": os.path.abspath(self.path),
            "format": self.format,
            "key": self.key,
            "time": self.time,
            "limit": self.limit,
            "bytes": sum(file.st_size for file in files),
            "modified": max(file.st_mtime_ns for file in files),
        }

    def encoded(self) -> Encoded:
        """Read the stream into memory."""
        found = read_stream(self.path, format=self.format, key=self.key, time=self.time, limit=self.limit)
        return Encoded.of(found.hashes)
