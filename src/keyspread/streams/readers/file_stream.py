"""A real stream as a recipe: where it lies and how it is read. Whoever needs it reads it."""

import os
from dataclasses import dataclass
from typing import Any

from keyspread.errors import InputError
from keyspread.streams.encoded import Encoded
from keyspread.streams.readers.files import read_stream
from keyspread.streams.readers.paths import find_files


@dataclass(frozen=True)
class FileStream:
    """The messages of a file, folder or pattern, in order. `limit` takes the first so many."""

    path: str
    format: str | None = None
    key: str | None = None
    time: str | None = None
    limit: int | None = None

    @property
    def title(self) -> str:
        """A few words for people."""
        return os.path.basename(self.path.rstrip("/")) or self.path

    def parameters(self) -> dict[str, Any]:
        """Give everything that decides the stream; sizes and times of the files stand for their content."""
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
        """Read it."""
        found = read_stream(self.path, format=self.format, key=self.key, time=self.time, limit=self.limit)
        return Encoded.of(found.hashes)


def find_streams(path: str | os.PathLike[str]) -> list[str]:
    """List the streams a path means: every entry of a folder, file or folder, is one; else the path itself is."""
    name = os.fspath(path)
    if not os.path.isdir(name):
        return [name]
    entries = sorted(entry for entry in os.listdir(name) if not entry.startswith((".", "_")))
    if not entries:
        raise InputError(f"{name}: nothing in this folder: put files or folders of messages there")
    return [os.path.join(name, entry) for entry in entries]
