"""Streams to route: made ones (Zipf, drifting, look-alikes of the paper's) and real ones, read from files."""

from keyspread.encoded import Encoded
from keyspread.streams.drift import DriftingZipfStream
from keyspread.streams.file_stream import FileStream, find_streams
from keyspread.streams.files import KeyTexts, Malformed, Stream, read_stream, total_bytes
from keyspread.streams.lookalikes import ORIGINALS, look_alike
from keyspread.streams.made import Made
from keyspread.streams.zipf import ZipfRanks, ZipfStream, zipf, zipf_probabilities

__all__ = [
    "ORIGINALS",
    "DriftingZipfStream",
    "Encoded",
    "FileStream",
    "KeyTexts",
    "Made",
    "Malformed",
    "Stream",
    "ZipfRanks",
    "ZipfStream",
    "find_streams",
    "look_alike",
    "read_stream",
    "total_bytes",
    "zipf",
    "zipf_probabilities",
]
