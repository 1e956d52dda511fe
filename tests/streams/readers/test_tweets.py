"""Words and cashtags of tweets compared with readers that go character by character."""

import gzip
import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyspread.errors import InputError
from keyspread.hashing import hash_keys
from keyspread.streams import Malformed, read_stream
from keyspread.streams.readers.times import moment
from keyspread.streams.readers.tweets import cashtags, words

BLOCK = "keyspread.streams.readers.lines._BLOCK"
"""Bytes parsed at once; small in tests, so that every record is cut somewhere."""


def naive_words(text):
    found, place = [], 0
    while place < len(text):
        rest = text[place:]
        start = next((url for url in ("http://", "https://", "www.") if rest.lower().startswith(url)), None)
        if start and rest[len(start) :] and not rest[len(start)].isspace():
            while place < len(text) and not text[place].isspace():
                place += 1
        elif text[place].isalnum():
            word = ""
            while place < len(text):
                apostrophe = text[place] in "'’" and place + 1 < len(text) and text[place + 1].isalnum()
                if not (text[place].isalnum() or apostrophe):
                    break
                word += "'" if apostrophe else text[place]
                place += 1
            found.append(word.casefold())
        else:
            place += 1
    return found


def naive_cashtags(text):
    found = []
    for place, char in enumerate(text):
        letters = 0
        while text[place + 1 + letters : place + 2 + letters] in set(string.ascii_letters):
            letters += 1
        end = place + 1 + letters
        if char != "$" or not 1 <= letters <= 6:
            continue
        suffixed = text[end : end + 1] in (".", "_") and text[end + 1 : end + 2] in set(string.ascii_letters)
        if suffixed and not text[end + 2 : end + 3].isalnum():
            found.append(text[place + 1 : end + 2].upper())
            continue
        if not text[end : end + 1].isalnum():
            found.append(text[place + 1 : end].upper())
    return found


PIECES = ["don't", "’", "'", "a", "B", "9", " ", "_", "@Bob", "#Tag", "http://x.y/Z", "HTTPS://", "www.", "É", "İ", "ß"]
PIECES += [
    "$",
    "$AAPL",
    "$brk.b",
    "$100",
    ".",
    "$a_",
    "$abcdefg",
    "$GOOGL1",
    "½",
    "e\u0301",
    "😀",
    "\u3000",
    "中文",
    "\x85",
]
TEXTS = st.lists(st.sampled_from(PIECES)).map("".join)


@given(TEXTS)
def test_words(text):
    assert words(text) == naive_words(text)


@given(TEXTS | st.text("$aZ.9_É ", max_size=20))
def test_cashtags(text):
    assert cashtags(text) == naive_cashtags(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$AAPL", ["AAPL"]),
        ("$aapl,$GOOG!", ["AAPL", "GOOG"]),
        ("$BRK.B $RDS_a", ["BRK.B", "RDS_A"]),
        ("$AAPL.Nice $AAPL. $AAPL_", ["AAPL", "AAPL", "AAPL"]),
        ("$100 $A1 $ABCDEFG $ $1A $CAFÉ", []),
        ("$BRK.B2", ["BRK"]),
    ],
)
def test_what_a_cashtag_is(text, expected):
    assert cashtags(text) == expected


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_plain_tweets_at_their_lines(write, pack):
    path = write(pack("Über $AAPL\n\n😀\nthe $aapl $brk.b {x}\n".encode()), "tweets.txt")
    stream = read_stream(path, format="words", strict=True)
    assert [stream.keys[key] for key in stream.hashes] == ["über", "aapl", "the", "aapl", "brk", "b", "x"]
    assert stream.times.tolist() == [1, 1, 4, 4, 4, 4, 4]
    stream = read_stream(path, format="cashtags", strict=True)
    assert stream.hashes.tolist() == hash_keys(["AAPL", "AAPL", "BRK.B"]).tolist()
    assert stream.times.tolist() == [1, 4, 4]
    assert len(stream.keys) == 2


TWEETS = [
    b'{"text": "a B"}',
    b'{"text": "old", "full_text": "new one", "created_at": 7}',
    b'{"text": "c", "full_text": null, "created_at": "Wed Aug 27 13:08:45 +0000 2008"}',
    b'{"text": "d", "created_at": 2.5}',
    b'{"text": "", "created_at": null}',
    b'{"text": "e", "created_at": "2008-08-27T13:08:45.500Z"}',
    b'{"text": "f", "created_at": "soon"}',
    b'{"text": "g", "created_at": true}',
    b'{"text": 5}',
    b'{"txt": "h"}',
    b'{"text": "i"',
    b'{"text": "\xff"}',
    b'["text"]',
    b'{"text": "\\ud800 j"}',
    b"",
    b"   ",
]


def naive_tweets(data):
    messages, malformed = [], []
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            tweet = json.loads(line.decode())
            text = tweet["full_text"] if tweet.get("full_text") is not None else tweet["text"]
            time = {None: number, "soon": "malformed", True: "malformed"}.get(
                tweet.get("created_at"), tweet.get("created_at")
            )
            time = {"Wed Aug 27 13:08:45 +0000 2008": 1219842525, "2008-08-27T13:08:45.500Z": 1219842525.5}.get(
                time, time
            )
            messages += [(time + 0, word) for word in naive_words(text)]
        except (ValueError, KeyError, TypeError, AttributeError):
            malformed.append((number, line.decode("utf-8", "replace")))
    return messages, malformed


@given(st.lists(st.sampled_from(TWEETS)), st.integers(1, 150), st.none() | st.integers(1, 8))
def test_any_json_tweets_in_blocks_of_any_size(tmp_path_factory, lines, block, limit):
    data = b"\n".join(lines)
    path = tmp_path_factory.mktemp("tweets") / "tweets.jsonl"
    path.write_bytes(data)
    messages, malformed = naive_tweets(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BLOCK, block)
        if not messages:
            with pytest.raises(InputError, match="no messages"):
                read_stream(path, format="words")
            return
        stream = read_stream(path, format="words", limit=limit)
    found = [stream.keys[key] for key in stream.hashes]
    assert list(zip(stream.times.tolist(), found, strict=True)) == messages[:limit]
    assert len(stream.keys) == len({key for _, key in messages[:limit]})
    if limit is None or limit > len(messages):
        assert stream.malformed == (Malformed(len(malformed), *malformed[0]) if malformed else Malformed())


def test_json_is_told_by_the_first_line_or_the_ending(write):
    data = b'\n{"text": "a"}\nb\n'
    assert read_stream(write(data, "tweets"), format="words").malformed == Malformed(1, 3, "b")
    assert read_stream(write(b'b\n{"text": "a"}\n', "tweets.json.gz"), format="words").malformed == Malformed(1, 1, "b")
    assert read_stream(write(b"{smile} b\n", "tweets"), format="words").malformed == Malformed()
    with pytest.raises(InputError, match="line 3: expected a JSON object with the tweet in text or full_text, got 'b'"):
        read_stream(write(data, "tweets"), format="words", strict=True)


def test_numbers_of_lines_go_on_from_file_to_file(write):
    folder = write(b"a\nb\n", "tweets/1").parent
    write(b"c\n\nd", "tweets/2")
    write(b"e\n", "tweets/3")
    assert read_stream(folder, format="words").times.tolist() == [1, 2, 3, 5, 6]


def test_tweets_without_any(write):
    path = write(b"nothing for $100\n", "tweets")
    with pytest.raises(
        InputError, match=r"tweets: no messages \(no cashtags in any tweet\): name another path, or pass"
    ):
        read_stream(path, format="cashtags")


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("12", 12),
        ("-1.5e3", -1500),
        ("9" * 400, None),
        ("Thu Jan 01 01:30:00 +0130 1970", 0),
        ("Thu Jan 01 00:00:00 -0030 1970", 1800),
        ("Thu Foo 01 00:00:00 +0000 1970", None),
        ("Thu Jan 32 00:00:00 +0000 1970", None),
        ("1970-01-02", 86400),
        ("1970-01-01T01:00:00+01:00", 0),
        ("٣", None),
        ("", None),
    ],
)
def test_moments(text, time):
    assert moment(text) == time
