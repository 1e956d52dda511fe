"""Streams to route: made ones (`zipf`) and real ones (`read_stream`). Each gives a hash per message."""

from keyspread.streams.files import KeyTexts, Malformed, Stream, read_stream
from keyspread.streams.zipf import ZipfRanks, zipf, zipf_probabilities

__all__ = ["KeyTexts", "Malformed", "Stream", "ZipfRanks", "read_stream", "zipf", "zipf_probabilities"]
