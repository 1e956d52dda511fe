"""Tweets, one per line: each word (or each cashtag) of a tweet is one message, in order.

This module defines what a word and a cashtag are.
"""

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from keyspread.streams.readers.lines import Lines
from keyspread.streams.readers.messages import Messages
from keyspread.streams.readers.times import as_array, moment, plain_number

# A URL must start where no word is under way: in 'xhttp://' the first word is 'xhttp'.
_URL_OR_WORD = re.compile(r"(?i:https?://|www\.)\S+|([^\W_]+(?:['’][^\W_]+)*)")
# 'see $BRK.B, $AAPL.Nice' has BRK.B and AAPL: 'Nice' is too long to be a share class.
_CASHTAG = re.compile(r"\$([A-Za-z]{1,6}(?:[._][A-Za-z])?)(?![^\W_])")
_JSON_OBJECT = re.compile(rb'\s*\{\s*["}]')


def words(text: str) -> list[str]:
    """Return the runs of letters and digits, including apostrophes inside them, case-folded and without URLs.

    >>> words("RT @Bob: don’t miss #Berlin2024 https://t.co/x 'IT's OK'")
    ['rt', 'bob', "don't", 'miss', 'berlin2024', "it's", 'ok']
    """
    if text.isascii():
        return [word for word in _URL_OR_WORD.findall(text.lower()) if word]
    # Fold after the split: a folded İ contains a combining dot, which is not a letter.
    return [word.casefold().replace("’", "'") for word in _URL_OR_WORD.findall(text) if word]


def cashtags(text: str) -> list[str]:
    """Return the symbols after a dollar sign, in capitals: 1 to 6 letters and an optional share class.

    >>> cashtags("$aapl up, $BRK.B and $RDS_A down, I paid $100 for $GOOGLES")
    ['AAPL', 'BRK.B', 'RDS_A']
    """
    return [symbol.upper() for symbol in _CASHTAG.findall(text)]


class Tweets(Lines):
    """Tweets as plain text or JSON lines. A tweet without a word (or cashtag) has no message but is not malformed."""

    expected = "a tweet"

    def __init__(self, keys_of: Callable[[str], list[str]], *, as_json: bool, lines_before: int) -> None:
        """Start a new file. Unless `as_json` is set, its first line decides whether it is JSON or plain text."""
        self.nothing = f"no {keys_of.__name__} in any tweet"
        self._keys_of = keys_of
        self._as_json: bool | None = as_json or None
        self._lines_before = lines_before

    def begin(self, block: bytes) -> int:
        """Decide by the first line that is not blank whether the file is JSON lines or plain text."""
        if self._as_json is None and block.strip():
            self._as_json = _JSON_OBJECT.match(block) is not None
        if self._as_json:
            self.expected = "a JSON object with the tweet in text or full_text"
        return 0

    def parse(self, block: bytes, line: int) -> Messages:
        """Return the keys of every tweet. Their time is the tweet's `created_at`, or else its line in the stream."""
        keys: list[str] = []
        counts: list[int] = []
        times: list[Any] = []
        malformed: list[tuple[int, bytes]] = []
        for place, raw in enumerate(block.splitlines()):
            if not raw or raw.isspace():
                continue
            time: float | None = self._lines_before + line + place
            text: str | None
            if self._as_json:
                text, time = _tweet(raw, time)
            else:
                text = raw.decode("utf-8", "replace")
            if text is None or time is None:
                malformed.append((place, raw))
                continue
            found = self._keys_of(text)
            keys += found
            counts.append(len(found))
            times.append(time)
        column = pa.array(keys, pa.string()).dictionary_encode()
        return Messages(
            np.repeat(as_array(times), np.array(counts, np.int64)),
            column,
            len(malformed),
            malformed[0] if malformed else None,
        )


def _tweet(line: bytes, time: float | None) -> tuple[str | None, float | None]:
    """Return the text and the time of a JSON tweet, None for either if it is invalid; `time` is the default time."""
    try:
        tweet = json.loads(line)
    except (ValueError, RecursionError):
        return None, None
    if not isinstance(tweet, dict):
        return None, None
    text = tweet.get("full_text")
    if text is None:
        text = tweet.get("text")
    created = tweet.get("created_at")
    if created is not None:
        time = moment(created) if isinstance(created, str) else plain_number(created)
    return text if isinstance(text, str) else None, time
