"""Check that a merged result is exact, after every run of the benchmark: a fast wrong answer is worth nothing."""

from collections.abc import Mapping

import numpy as np

from keyspread.errors import KeyspreadError
from keyspread.streams import ZipfStream


class WrongResultError(KeyspreadError):
    """The workers' counts differ from what was sent."""


def check_exact(stream: ZipfStream, counted: Mapping[int, int]) -> None:
    """Raise a WrongResultError if the counts per key are not those of the stream."""
    exact = np.bincount(stream.law().draw(0, stream.messages), minlength=stream.keys + 1)
    found = np.zeros_like(exact)
    found[list(counted)] = list(counted.values())
    if not np.array_equal(found, exact):
        off = int(np.abs(found - exact).sum())
        raise WrongResultError(
            f"the merged result is off by {off:,} of {stream.messages:,} messages: report this as a bug"
        )
