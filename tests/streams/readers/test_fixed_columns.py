"""WikiBench traces compared with a plain reader of the same lines."""

import gzip
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyspread.errors import InputError
from keyspread.hashing import hash_keys
from keyspread.streams import Malformed, read_stream

BLOCK = "keyspread.streams.readers.lines._BLOCK"
"""Bytes parsed at once; small in tests, so that every record is cut somewhere."""


def naive(data):
    """Messages and malformed lines, one line at a time."""
    messages, malformed = [], []
    for number, line in enumerate(data.splitlines(), start=1):
        parts = line.split(b" ")
        if not line:
            continue
        if (
            len(parts) == 4
            and re.fullmatch(rb"[0-9]+", parts[0])
            and re.fullmatch(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", parts[1])
            and parts[2]
            and parts[3]
        ):
            messages.append((float(parts[1]), parts[2]))
        else:
            malformed.append((number, line.decode("utf-8", "replace")))
    return messages, malformed


def check(stream, data):
    messages, malformed = naive(data)
    assert stream.times.dtype == np.float64
    assert stream.times.tolist() == [time for time, _ in messages]
    assert stream.hashes.tolist() == hash_keys([key for _, key in messages]).tolist()
    assert [stream.keys[key] for key in stream.hashes] == [key.decode("utf-8", "replace") for _, key in messages]
    assert len(stream.keys) == len({key for _, key in messages})
    assert stream.malformed == (Malformed(len(malformed), *malformed[0]) if malformed else Malformed())


GOOD = b"929840853 1190146243.326 http://en.wikipedia.org/wiki/Main_Page -"
TRACE = (
    GOOD + b"\n929840854 1190146243.328 http://upload.wikimedia.org/a.png -\n"
    b"929840855 1190146243 http://en.wikipedia.org/w/index.php?title=A\tB save\n"
)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("name", ["wiki.1190153705.gz", "trace", "trace.txt", "trace.tsv.gz"])
def test_a_trace_is_told_by_its_lines(write, name, pack):
    check(read_stream(write(pack(TRACE), name)), TRACE)


LINES = st.lists(
    st.sampled_from(
        [
            *(GOOD, b"1 2 u -", b"2 3.5 \xff save", b"9 1 v -\r", b"", b"3 4 u", b"4 5  -", b"5 6 u ", b"x 7 u -"),
            *(b" 8 u -", b"6 t u -", b"7 8 u - -", b"8  u -", b"\xff", b"\xff 1 u -", b"1\tkey"),
        ]
    )
)


@given(LINES, st.integers(1, 200))
def test_any_lines_in_blocks_of_any_size(tmp_path_factory, lines, block):
    data = b"\n".join(lines)
    path = tmp_path_factory.mktemp("lines") / "trace"
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BLOCK, block)
        if naive(data)[0]:
            check(read_stream(path, format="wikibench"), data)
        else:
            with pytest.raises(InputError, match="no messages"):
                read_stream(path, format="wikibench")


def test_strict_says_what_a_line_must_be(write):
    path = write(GOOD + b"\n1 2 3\n", "trace")
    with pytest.raises(InputError) as raised:
        read_stream(path, strict=True)
    assert str(raised.value) == (
        f"{path}, line 2: expected 'counter time url flag', separated by single spaces, got '1 2 3': "
        "fix the line, or read without strict to skip and count such lines"
    )
