"""Read the lines of one log file. Its first bytes name the codec, not its name; a cut file gives what is there.

Spark compresses logs with zstd (the default since 3.0), or with lz4 and snappy in framings of their own, which no
command-line tool and no library of ours reads: blocks with a header each. gzip is what people and Databricks do to
finished logs. The fourth codec of Spark, lzf, is refused in one line.
"""

import gzip
import io
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from keyspread.errors import InputError

BLOCK = 1 << 18
_SALVAGE_BLOCK = 128
_LIMIT = 1 << 26
"""No codec of Spark writes blocks of more than 32 MB: a larger length is damage, not data."""

_LONGEST_LINE = 1 << 29
_UNCLEAR = 1 << 20
"""Bytes without an end of a line, after which a file that does not start like an event is given up."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_MAGIC = {
    "zstd": b"\x28\xb5\x2f\xfd",
    "gzip": b"\x1f\x8b",
    "lz4": b"LZ4Block",
    "snappy": b"\x82SNAPPY\x00",
    "lzf": b"ZV\x01",
}
_FOREIGN = {
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"PK\x03\x04": "zip",
    b"\x04\x22\x4d\x18": "the lz4 command",
    b"PAR1": "Parquet",
    b"Obj\x01": "Avro",
    b"ORC": "ORC",
}


class Damage(Exception):  # noqa: N818
    """The rest of a file cannot be read; the message says why."""


def codec_of(head: bytes) -> str | None:
    """Return the codec that a file starts with, None for a plain file or something else."""
    return next((name for name, magic in _MAGIC.items() if head.startswith(magic)), None)


def foreign_codec(head: bytes) -> str | None:
    """Return what a file is that starts like this and cannot be a log of Spark."""
    return next((name for magic, name in _FOREIGN.items() if head.startswith(magic)), None)


def looks_like_log(head: bytes) -> bool:
    """Tell whether a file that starts like this may be an event log: compressed by Spark, or an object of JSON."""
    return codec_of(head) is not None or head.removeprefix(_BYTE_ORDER_MARK).lstrip()[:1] == b"{"


def read_lines(path: Path, damaged: Callable[[str], None]) -> Iterator[bytes]:
    """Yield the lines of a file without their ends. `damaged` is called once if the file breaks off."""
    stream = io.BufferedReader(_Blocks(read_blocks(path), damaged), BLOCK)
    mark = _BYTE_ORDER_MARK
    while line := stream.readline(_UNCLEAR):
        line, mark = line.removeprefix(mark), b""
        if len(line) >= _UNCLEAR - len(_BYTE_ORDER_MARK) and not line.endswith(b"\n"):
            if not line[:64].lstrip().startswith(b"{"):
                damaged("a line that is no event has no end")
                yield line
                return
            line += stream.readline(_LONGEST_LINE)
        yield line.removesuffix(b"\n")


class _Blocks(io.RawIOBase):
    """Blocks of bytes as a file, which ends where the blocks are damaged."""

    def __init__(self, blocks: Iterator[bytes], damaged: Callable[[str], None]) -> None:
        self._blocks, self._damaged, self._rest = blocks, damaged, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            while not self._rest:
                self._rest = next(self._blocks)
        except StopIteration:
            return 0
        except Damage as damage:
            self._damaged(str(damage))
            return 0
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


def read_blocks(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, decompressed. Raise `Damage` where the rest cannot be read."""
    with path.open("rb") as file:
        codec = codec_of(file.read(16))
        file.seek(0)
        yield from _READERS[codec](file)


def _plain(file: BinaryIO) -> Iterator[bytes]:
    while block := file.read(BLOCK):
        yield block


def _gzip(file: BinaryIO) -> Iterator[bytes]:
    try:
        with gzip.GzipFile(fileobj=file) as stream:
            while block := stream.read1(BLOCK):
                yield block
    except (OSError, EOFError, zlib.error) as error:
        raise Damage(f"gzip: {error}") from None


def _zstd(file: BinaryIO) -> Iterator[bytes]:
    done = 0
    # Arrow drops the bytes of the read that fails: then read again, in small steps from there on.
    for step in (BLOCK, _SALVAGE_BLOCK):
        try:
            with pa.CompressedInputStream(pa.OSFile(os.fspath(file.name)), "zstd") as stream:
                skipped = 0
                while skipped < done:
                    skipped += len(stream.read(min(done - skipped, BLOCK)))
                while block := stream.read(step):
                    done += len(block)
                    yield block
            return
        except (OSError, pa.ArrowException):
            continue
    raise Damage("the zstd data breaks off")


def _lz4(file: BinaryIO) -> Iterator[bytes]:
    codec = pa.Codec("lz4_raw")
    while header := file.read(21):
        if len(header) < 21 or not header.startswith(_MAGIC["lz4"]):
            raise Damage("the lz4 data breaks off")
        token, packed, size, _ = struct.unpack("<BIII", header[8:])
        data = _block(file, packed, size, "lz4")
        if token & 0xF0 == 0x10:  # a block that did not shrink
            yield data
        elif size:
            yield _decompress(codec, data, size, "lz4")


def _snappy(file: BinaryIO) -> Iterator[bytes]:
    codec = pa.Codec("snappy")
    file.read(16)  # magic, version, oldest compatible version
    while length := file.read(4):
        if length == _MAGIC["snappy"][:4]:  # another stream was appended
            file.read(12)
            continue
        if len(length) < 4:
            raise Damage("the snappy data breaks off")
        data = _block(file, int.from_bytes(length, "big"), 0, "snappy")
        size = 0  # after decompression: the first bytes, 7 bits each, lowest first
        for place, byte in enumerate(data[:5]):
            size |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                break
        yield _decompress(codec, data, size, "snappy")


def _block(file: BinaryIO, packed: int, size: int, name: str) -> bytes:
    if packed > _LIMIT or size > _LIMIT:
        raise Damage(f"the {name} data is damaged")
    data = file.read(packed)
    if len(data) < packed:
        raise Damage(f"the {name} data breaks off")
    return data


def _decompress(codec: Any, data: bytes, size: int, name: str) -> bytes:
    try:
        if size > _LIMIT:
            raise ValueError("impossible size")
        unpacked: bytes = codec.decompress(data, decompressed_size=size, asbytes=True)
    except (OSError, pa.ArrowException, ValueError):
        raise Damage(f"the {name} data is damaged") from None
    return unpacked


def _lzf(file: BinaryIO) -> Iterator[bytes]:
    raise InputError(
        f"{os.fspath(file.name)!r} is compressed with lzf, which is not read: run the job with "
        "spark.eventLog.compression.codec=zstd, the default, or name another log"
    )


_READERS: dict[str | None, Callable[[BinaryIO], Iterator[bytes]]] = {
    None: _plain,
    "gzip": _gzip,
    "zstd": _zstd,
    "lz4": _lz4,
    "snappy": _snappy,
    "lzf": _lzf,
}
