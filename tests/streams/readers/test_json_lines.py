"""JSON lines compared with the json module of Python, as a whole and in small blocks."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyspread.errors import InputError
from keyspread.hashing import NULL_HASH, hash_keys
from keyspread.streams import read_stream

BLOCK = "keyspread.streams.readers.lines._BLOCK"
"""Bytes parsed at once; small in tests, so that every record is cut somewhere."""


def keys_of(stream):
    return [stream.keys[key] for key in stream.hashes]


def naive_json(data, key, kinds, time=None):
    messages, malformed = [], []
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            item = json.loads(line.decode())
            value = item.get(key)
            fits = value is None or type(value) in kinds
            when = float(item[time]) if time else None
            if isinstance(value, str):
                value.encode()
        except (ValueError, KeyError, TypeError, AttributeError):
            fits = False
        if fits:
            messages.append((when, float(value) if float in kinds and value is not None else value))
        else:
            malformed.append((number, line.decode("utf-8", "replace")))
    return messages, malformed


OTHERS = [
    b"",
    b"  ",
    b"{",
    b"null",
    b"[1]",
    b'{"k": "\xff", "t": 1}',
    b'{"k": "\\ud800", "t": 1}',
    b'{"k": 1} {"k": 2}',
]
OTHERS += [b'{"k": 12345678901234567890123, "t": 1}', b'{"k": [1], "t": 2}', b'{"t": 3, "x": {"k": 4}}']
OTHERS += [b'{"k": null, "t": 1.5}', b'{"k": null, "t": null}', b'{"k": null}', b'{"t": 2, "k": null}\r']
COLUMNS = {
    (str,): [b'{"k": "007", "t": 1}', b'{"t": 2, "k": "2020-01-01", "u": 0}', b'{"k": "\\u00e9", "t": 3}', b'{"k": 1}'],
    (int,): [b'{"k": 7, "t": 2}', b'{"k": -1, "t": 1.5}', b'{"k": 1.0, "t": 1}', b'{"k": "x", "t": 1}', b'{"k": true}'],
    (float, int): [b'{"k": 0.5, "t": 2}', b'{"k": 3, "t": 1}', b'{"k": 1e3, "t": 0}', b'{"k": NaN, "t": 0}'],
    (bool,): [b'{"k": true, "t": 2}', b'{"k": false, "t": 1}', b'{"k": 1, "t": 1}'],
}


@given(st.data(), st.sampled_from(list(COLUMNS)), st.integers(1, 100), st.booleans())
def test_any_json_in_blocks_of_any_size(tmp_path_factory, data, kinds, block, timed):
    first = COLUMNS[kinds][0]
    lines = [first, *data.draw(st.lists(st.sampled_from([*COLUMNS[kinds], *OTHERS])))]
    text = b"\n".join(lines)
    path = tmp_path_factory.mktemp("json") / "stream.jsonl"
    path.write_bytes(text)
    time = "t" if timed else None
    if kinds == (int,):
        text = text.replace(b"12345678901234567890123", b"[1]")  # Python has ints of any length, the column has not
    messages, malformed = naive_json(text, "k", kinds, time)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BLOCK, block)
        stream = read_stream(path, key="k", time=time)
    assert len(stream.hashes) == len(messages)
    assert stream.malformed.count == len(malformed)
    assert stream.malformed.first_line_number == (malformed[0][0] if malformed else None)
    if timed:
        messages.sort(key=lambda message: message[0])
        assert stream.times.tolist() == [time for time, _ in messages]
    assert stream.hashes.tolist() == hash_keys([key for _, key in messages]).tolist()


def test_json_types(write):
    def read(*lines, **options):
        return read_stream(write("\n".join(lines).encode(), "stream.json"), key="k", **options)

    assert read('{"k": 7}').hashes.tolist() == hash_keys([7]).tolist()
    assert keys_of(read('{"k": 7}')) == ["7"]
    assert read('{"x": 1}', '{"k": "é"}', '{"k": null}').hashes.tolist() == [NULL_HASH, hash_keys(["é"])[0], NULL_HASH]
    assert keys_of(read('{"k": null}')) == ["null"]
    assert keys_of(read('{"k": true}', '{"k": false}')) == ["true", "false"]
    stream = read('{"k": 1, "t": "2020-01-02"}', '{"k": 2, "t": "2020-01-01"}', time="t")
    assert keys_of(stream) == ["2", "1"]
    with pytest.raises(InputError, match=r"stream\.json: column 'k' holds \[1\]: name a column of strings or numbers$"):
        read('{"k": [1]}')
    with pytest.raises(InputError, match=r"line 2: expected a JSON object with int64 in 'k', got '\{\"k\": \"x\"\}'"):
        read('{"k": 1}', '{"k": "x"}', strict=True)


def test_keys_of_two_types_in_one_stream(write):
    first = write(b'{"k": 7}\n', "folder/1.json")
    second = write(b'{"k": "7"}\n', "folder/2.json")
    with pytest.raises(InputError) as raised:
        read_stream(first.parent, key="k")
    assert str(raised.value) == (
        f"{second}: keys are text here and int64 in {first}, so equal keys would hash differently: "
        "write all files with one key type"
    )
    write(b'{"k": null}\n', "folder/2.json")
    write(b'{"k": 8}\n', "folder/3.json")
    assert keys_of(read_stream(first.parent, key="k")) == ["7", "null", "8"]
