"""Read the lines of one log file. Its first bytes name the codec, not its name; a cut file gives what is there.

Spark compresses logs with zstd (the default since 3.0), or with lz4, lzf and snappy in framings of their own, which
no command-line tool reads: blocks with a header each. gzip is what people and Databricks do to finished logs.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

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
    "lzf": b"ZV",
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


def read_lines(path: Path, damaged: Callable[[str], None]) -> Iterator[bytes]:
    """Yield the lines of a file without their ends. `damaged` is called once if the file breaks off."""
    pieces: list[bytes] = []  # of a line that goes on: joined once, or a long one would take quadratic time
    size, first = 0, True
    try:
        for block in read_blocks(path):
            block = block.removeprefix(_BYTE_ORDER_MARK) if first else block
            first = first and not block
            head, end, rest = block.partition(b"\n")
            pieces.append(head)
            size += len(head)
            if end:
                yield b"".join(pieces)
                *lines, last = rest.split(b"\n")
                yield from lines
                pieces, size = [last], len(last)
            elif size > _LONGEST_LINE or (size > _UNCLEAR and not _starts_an_event(pieces)):
                raise Damage("a line that is no event has no end")
    except Damage as damage:
        damaged(str(damage))
    if size:
        yield b"".join(pieces)


def _starts_an_event(pieces: list[bytes]) -> bool:
    return b"".join(pieces[:2])[:64].lstrip().startswith(b"{")


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
    decoder = zlib.decompressobj(31)
    try:
        while block := file.read(BLOCK):
            while block:
                # A small compressed block may unpack to a thousand times its size.
                yield decoder.decompress(block, 4 * BLOCK)
                block = decoder.unconsumed_tail
                if decoder.eof:
                    block = decoder.unused_data
                    decoder = zlib.decompressobj(31)
                    if not block.startswith(_MAGIC["gzip"]):
                        block = b"" if not block.strip(b"\0") else block
    except zlib.error as error:
        raise Damage(f"gzip: {error}") from None
    yield decoder.flush()


def _zstd(file: BinaryIO) -> Iterator[bytes]:
    done = 0
    try:
        with pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd") as stream:
            while block := stream.read(BLOCK):
                done += len(block)
                yield block
        return
    except (OSError, pa.ArrowException):
        pass
    # Arrow drops the bytes of the read that failed: read again, in small steps from there on.
    yield from _zstd_rest(file.name, done)


def _zstd_rest(name: Any, done: int) -> Iterator[bytes]:
    try:
        with open(name, "rb") as file, pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd") as stream:
            while done > 0:
                done -= len(stream.read(min(done, BLOCK)))
            while block := stream.read(_SALVAGE_BLOCK):
                yield block
    except (OSError, pa.ArrowException):
        raise Damage("the zstd data breaks off") from None


def _lz4(file: BinaryIO) -> Iterator[bytes]:
    codec = pa.Codec("lz4_raw")
    while header := file.read(21):
        if len(header) < 21 or not header.startswith(_MAGIC["lz4"]):
            raise Damage("the lz4 data breaks off")
        token, packed, size, _ = struct.unpack("<BIII", header[8:])
        if packed > _LIMIT or size > _LIMIT:
            raise Damage("the lz4 data is damaged")
        data = file.read(packed)
        if token & 0xF0 == 0x10:
            yield data
        elif len(data) == packed and size:
            yield _decompress(codec, data, size, "lz4")
        if len(data) < packed:
            raise Damage("the lz4 data breaks off")


def _snappy(file: BinaryIO) -> Iterator[bytes]:
    codec = pa.Codec("snappy")
    file.read(16)  # magic, version, oldest compatible version
    while length := file.read(4):
        if length == _MAGIC["snappy"][:4]:  # another stream was appended
            file.read(12)
            continue
        if len(length) < 4:
            raise Damage("the snappy data breaks off")
        packed = int.from_bytes(length, "big")
        data = file.read(packed) if packed <= _LIMIT else b""
        if len(data) < packed:
            raise Damage("the snappy data breaks off")
        yield _decompress(codec, data, _snappy_size(data), "snappy")


def _snappy_size(data: bytes) -> int:
    """Return the size after decompression: the first bytes, 7 bits each, lowest first."""
    size = 0
    for place, byte in enumerate(data[:5]):
        size |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    if size > _LIMIT:
        raise Damage("the snappy data is damaged")
    return size


def _decompress(codec: Any, data: bytes, size: int, name: str) -> bytes:
    try:
        unpacked: bytes = codec.decompress(data, decompressed_size=size, asbytes=True)
    except (OSError, pa.ArrowException, ValueError):
        raise Damage(f"the {name} data is damaged") from None
    return unpacked


def _lzf(file: BinaryIO) -> Iterator[bytes]:
    from keyspread.diagnosis.log.lzf import decompress

    while header := file.read(5):
        if len(header) < 5 or not header.startswith(_MAGIC["lzf"]) or header[2] > 1:
            raise Damage("the lzf data breaks off")
        size = int.from_bytes(header[3:5], "big")
        if header[2] == 0:
            yield file.read(size)
            continue
        original = int.from_bytes(file.read(2), "big")
        unpacked = decompress(file.read(size), original)
        if unpacked is None:
            raise Damage("the lzf data is damaged")
        yield unpacked


_READERS: dict[str | None, Callable[[BinaryIO], Iterator[bytes]]] = {
    None: _plain,
    "gzip": _gzip,
    "zstd": _zstd,
    "lz4": _lz4,
    "snappy": _snappy,
    "lzf": _lzf,
}
