"""Streams to route: made ones (Zipf, drifting, look-alikes of the paper's) and real ones, read from files."""

from keyspread.streams.encoded import Encoded
from keyspread.streams.generated.catalog import made_stream
from keyspread.streams.generated.drift import DriftingZipfStream
from keyspread.streams.generated.generator import Made
from keyspread.streams.generated.lookalikes import ORIGINALS, look_alike
from keyspread.streams.generated.writer import write_stream
from keyspread.streams.generated.zipf import ZipfRanks, ZipfStream, zipf, zipf_probabilities
from keyspread.streams.profile import Profile, profile
from keyspread.streams.readers.file_stream import FileStream, find_streams
from keyspread.streams.readers.files import KeyTexts, Malformed, Stream, read_stream, total_bytes

__all__ = [
    "ORIGINALS",
    "DriftingZipfStream",
    "Encoded",
    "FileStream",
    "KeyTexts",
    "Made",
    "Malformed",
    "Profile",
    "Stream",
    "ZipfRanks",
    "ZipfStream",
    "find_streams",
    "look_alike",
    "made_stream",
    "profile",
    "read_stream",
    "total_bytes",
    "write_stream",
    "zipf",
    "zipf_probabilities",
]
