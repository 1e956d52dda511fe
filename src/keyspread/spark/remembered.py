"""What senders leave to the next batch of a stream: small files under the query's checkpoint, one a batch and source.

A file is complete or not there: it is written under another name and moved. A batch reads the files of the batch before
it, whoever runs it and however often, so an attempt that is run again starts from the same point. What is missing or
damaged costs a warning and some relearning, never the query.
"""

import os
import posixpath
import uuid
import warnings
from dataclasses import dataclass

from pyarrow import fs

_KEPT = 10
"""Batches whose files are kept: more than Spark ever runs again."""


@dataclass(frozen=True)
class Remembered:
    """The files of one query in a folder: a local path, or an address that pyarrow knows (s3://…, hdfs://…, gs://…)."""

    folder: str

    @classmethod
    def under(cls, checkpoint: str) -> "Remembered":
        """Keep them beside what Spark keeps in a checkpoint."""
        plain = checkpoint.removeprefix("file://") if checkpoint.startswith("file:///") else checkpoint
        return cls(posixpath.join(plain.rstrip("/"), "keyspread"))

    def _open(self) -> tuple[fs.FileSystem, str]:
        if "://" in self.folder:
            # Spark's name of S3 is not pyarrow's.
            system, path = fs.FileSystem.from_uri(self.folder.replace("s3a://", "s3://", 1))
            return system, path
        return fs.LocalFileSystem(), os.path.abspath(self.folder)

    def write(self, batch: int, source: int, data: bytes) -> None:
        """Leave what a source remembers of a batch; written again, it is replaced by the same."""
        system, folder = self._open()
        own = posixpath.join(folder, f"{batch:012d}")
        hidden = posixpath.join(own, f".{uuid.uuid4().hex}")
        try:
            system.create_dir(own, recursive=True)
            with system.open_output_stream(hidden) as file:
                file.write(data)
            system.move(hidden, posixpath.join(own, f"{source:06d}"))
        except OSError as problem:
            warnings.warn(f"{own}: cannot be written ({problem}): the next batch starts afresh", stacklevel=2)

    def before(self, batch: int) -> dict[int, bytes]:
        """Give what the sources left in the last batch before this one that left anything, by source."""
        system, folder = self._open()
        earlier = [name for name in self._names(system, folder) if name.isdigit() and int(name) < batch]
        if not earlier:
            return {}
        last = posixpath.join(folder, max(earlier))
        found = {}
        for name in self._names(system, last):
            if name.isdigit():
                try:
                    with system.open_input_stream(posixpath.join(last, name)) as file:
                        found[int(name)] = file.read()
                except OSError as problem:
                    warnings.warn(f"{last}/{name}: cannot be read ({problem}): relearning", stacklevel=2)
        return dict(sorted(found.items()))

    def clean(self, batch: int) -> None:
        """Remove the files of batches that nobody will run again."""
        system, folder = self._open()
        for name in self._names(system, folder):
            if name.isdigit() and int(name) < batch - _KEPT:
                try:
                    system.delete_dir(posixpath.join(folder, name))
                except OSError:
                    continue  # another attempt was quicker

    @staticmethod
    def _names(system: fs.FileSystem, folder: str) -> list[str]:
        entries = system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        return sorted(entry.base_name for entry in entries)
