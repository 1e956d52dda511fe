"""A folder on any file system that pyarrow knows: local, s3://…, hdfs://…, gs://…"""

import os
import posixpath
import re
import uuid
from dataclasses import dataclass

from pyarrow import fs


@dataclass(frozen=True)
class Folder:
    """A path, or an address as Spark writes it. Nothing is opened before it is used; errors are OSErrors."""

    address: str

    def at(self, *names: str) -> str:
        """Return the address of a file or folder in it."""
        return posixpath.join(self.address.rstrip("/"), *names)

    def names(self, *under: str) -> list[str]:
        """Return the names of its files and folders, sorted; a folder that does not exist is empty."""
        system, path = self._open()
        entries = system.get_file_info(fs.FileSelector(posixpath.join(path, *under), allow_not_found=True))
        return sorted(entry.base_name for entry in entries)

    def has(self, *names: str) -> bool:
        """Return whether a file or folder exists."""
        system, path = self._open()
        return bool(system.get_file_info(posixpath.join(path, *names)).type != fs.FileType.NotFound)

    def read(self, *names: str) -> bytes:
        """Return the content of a file."""
        system, path = self._open()
        with system.open_input_stream(posixpath.join(path, *names)) as file:
            return bytes(file.read())

    def write(self, data: bytes, *names: str) -> None:
        """Write a file completely or not at all: under another name, then moved."""
        system, path = self._open()
        wanted = posixpath.join(path, *names)
        hidden = posixpath.join(posixpath.dirname(wanted), f".{uuid.uuid4().hex}")
        system.create_dir(posixpath.dirname(wanted), recursive=True)
        with system.open_output_stream(hidden) as file:
            file.write(data)
        system.move(hidden, wanted)

    def delete(self, *names: str) -> None:
        """Delete a folder in it, with everything inside."""
        system, path = self._open()
        system.delete_dir(posixpath.join(path, *names))

    def _open(self) -> tuple[fs.FileSystem, str]:
        address = self.address.removeprefix("file://") if self.address.startswith("file:///") else self.address
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", address) and not address.startswith("file:/"):
            try:
                # Spark's name for S3 is not pyarrow's.
                system, path = fs.FileSystem.from_uri(address.replace("s3a://", "s3://", 1))
            except ValueError as problem:  # dbfs:/x and other file systems that only Spark knows
                raise OSError(f"pyarrow has no file system for {address.partition(':')[0]}:") from problem
            return system, path
        return fs.LocalFileSystem(), os.path.abspath(address.removeprefix("file:"))
