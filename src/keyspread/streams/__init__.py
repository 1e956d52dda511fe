"""Streams to route: generated ones (Zipf, drifting Zipf, look-alikes of the paper's streams) and files.

A stream is described by a recipe (`ZipfStream`, `DriftingZipfStream`, `FileStream`). Its method `encoded()` loads it
into memory as an `Encoded` stream, which is what a simulation reads.
"""

from keyspread.streams.catalog import ORIGINALS, look_alike, named_stream, write_stream
from keyspread.streams.encoded import Encoded, Profile, profile
from keyspread.streams.files import FileStream, Malformed, Stream, find_streams, read_stream, total_bytes
from keyspread.streams.generated import (
    DriftingZipfStream,
    GeneratedStream,
    ZipfRanks,
    ZipfStream,
    zipf,
    zipf_probabilities,
)

__all__ = [
    "ORIGINALS",
    "DriftingZipfStream",
    "Encoded",
    "FileStream",
    "GeneratedStream",
    "Malformed",
    "Profile",
    "Stream",
    "ZipfRanks",
    "ZipfStream",
    "find_streams",
    "look_alike",
    "named_stream",
    "profile",
    "read_stream",
    "total_bytes",
    "write_stream",
    "zipf",
    "zipf_probabilities",
]


def __dir__() -> list[str]:
    return __all__
