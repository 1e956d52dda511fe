"""Columns that are missing, in every format that has a header or names its fields."""

import pytest

from keyspread.errors import InputError
from keyspread.streams import read_stream


@pytest.mark.parametrize(
    ("name", "data"), [("stream.csv", b"a,b\n1,2\n"), ("stream.json", b'{"a": 1, "b": 2}\n'), ("s.csv", b"a,b\n")]
)
def test_missing_columns_of_text_files(write, name, data):
    path = write(data, name)
    with pytest.raises(InputError) as raised:
        read_stream(path, key="user")
    assert str(raised.value) == f"{path}: no column 'user' for key=: the columns are 'a', 'b'"
    with pytest.raises(InputError) as raised:
        read_stream(path)
    assert str(raised.value) == f"{path}: no key column given: pass key=, the columns are 'a', 'b'"
    with pytest.raises(InputError, match="no column 'when' for time=: the columns are 'a', 'b'"):
        read_stream(path, key="a", time="when")
