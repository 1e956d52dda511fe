"""Streams to route: made ones (Zipf, drifting, look-alikes of the paper's) and real ones, read from files."""

from keyspread.encoded import Encoded
from keyspread.streams.drift import DriftingZipfStream
from keyspread.streams.file_stream import FileStream, find_streams
from keyspread.streams.files import KeyTexts, Malformed, Stream, read_stream, total_bytes
from keyspread.streams.lookalikes import ORIGINALS, look_alike
from keyspread.streams.made import Made
from keyspread.streams.named import made_stream
from keyspread.streams.profile import Profile, profile
from keyspread.streams.writing import write_stream
from keyspread.streams.zipf import ZipfRanks, ZipfStream, zipf, zipf_probabilities

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
