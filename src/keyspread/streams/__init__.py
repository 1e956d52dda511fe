"""Streams to route: generated ones (Zipf, drifting Zipf, look-alikes of the paper's streams) and files.

A stream is described by a recipe (`ZipfStream`, `DriftingZipfStream`, `FileStream`). Its method `encoded()` loads it
into memory as an `Encoded` stream, which is what a simulation reads.
"""

from keyspread.streams.encoded import Encoded
from keyspread.streams.generated.catalog import named_stream
from keyspread.streams.generated.drift import DriftingZipfStream
from keyspread.streams.generated.generator import GeneratedStream
from keyspread.streams.generated.lookalikes import ORIGINALS, look_alike
from keyspread.streams.generated.writer import write_stream
from keyspread.streams.generated.zipf import ZipfRanks, ZipfStream, zipf, zipf_probabilities
from keyspread.streams.profile import Profile, profile
from keyspread.streams.readers.files import FileStream, Malformed, Stream, read_stream
from keyspread.streams.readers.paths import find_streams, total_bytes

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
