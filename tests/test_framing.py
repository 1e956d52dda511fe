"""Frames: what was sealed is opened; anything else is refused in one line that says what is wrong."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyspread.errors import SnapshotError
from keyspread.framing import Frame

FRAME = Frame(b"TEST", version=7, what="a test", origin="make()")


@given(st.binary(max_size=100))
def test_what_was_sealed_is_opened(content):
    assert FRAME.open(FRAME.seal(content)) == content


@given(st.binary(max_size=20), st.data())
def test_no_change_goes_unnoticed(content, data):
    sealed = bytearray(FRAME.seal(content))
    at = data.draw(st.integers(0, len(sealed) - 1))
    sealed[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(SnapshotError, match="not a test" if at < 4 else "damaged"):
        FRAME.open(bytes(sealed))


@pytest.mark.parametrize("length", range(13))
def test_what_is_cut_short_is_refused(length):
    with pytest.raises(SnapshotError, match="not a test" if length < 4 else f"a test of {length} bytes is damaged"):
        FRAME.open(FRAME.seal(b"")[:length])


def test_another_version_and_another_kind_are_named():
    with pytest.raises(SnapshotError, match="a test has format 8, this keyspread reads 7"):
        FRAME.open(dataclasses.replace(FRAME, version=8).seal(b"content"))
    with pytest.raises(SnapshotError, match="not a test: it starts with b'ELSE', not b'TEST'; pass what make"):
        FRAME.open(dataclasses.replace(FRAME, magic=b"ELSE").seal(b"content"))
