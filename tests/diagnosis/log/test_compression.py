"""Every codec gives the bytes that were compressed; a file cut anywhere gives a prefix of them, and says so."""

import random

import pytest

from keyspread.diagnosis import diagnose_log
from keyspread.diagnosis.log.compression import Damage, codec_of, read_blocks, read_lines
from keyspread.errors import InputError
from made_logs import CODECS, skewed_log

DATA = skewed_log().data * 5 + b"aaaaaaaaaaaaaaaaaaaaaa\n" * 30


def read(path):
    out = b""
    try:
        for block in read_blocks(path):
            out += block
    except Damage:
        return out, True
    return out, False


@pytest.mark.parametrize("codec", CODECS)
def test_the_bytes_come_back(codec, tmp_path):
    path = tmp_path / "log"
    path.write_bytes(CODECS[codec](DATA))
    assert read(path) == (DATA, False)
    assert codec_of(path.read_bytes()) == (None if codec == "plain" else codec)
    assert list(read_lines(path, pytest.fail)) == DATA.splitlines()  # whatever the blocks


@pytest.mark.parametrize("codec", CODECS)
def test_a_cut_file_gives_what_is_there(codec, tmp_path):
    rng = random.Random(3)
    data = DATA if codec != "zstd" else b"".join(b"%d\n" % rng.getrandbits(64) for _ in range(30_000))  # 5 blocks
    whole = CODECS[codec](data)
    path = tmp_path / "log"
    most = 0
    for cut in sorted(rng.sample(range(20, len(whole)), 60)):
        path.write_bytes(whole[:cut])
        found, _ = read(path)
        assert data.startswith(found)
        assert len(found) >= most
        most = len(found)
    assert most > 0


def test_a_file_without_ends_of_lines_that_is_no_log_is_given_up_early(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"\x00" * (16 << 20))
    notes = []
    (line,) = read_lines(path, notes.append)
    assert len(line) < 2 << 20
    assert notes == ["a line that is no event has no end"]


def test_a_long_line_is_read_and_a_mark_before_it_is_not(tmp_path):
    line = b'{"Event":"x","a":"' + b"y" * (3 << 20) + b'"}'
    (tmp_path / "log").write_bytes(b"\xef\xbb\xbf" + line + b"\n{}\n\n" + line)
    assert list(read_lines(tmp_path / "log", pytest.fail)) == [line, b"{}", b"", line]


def test_lzf_is_refused_in_one_line_also_beside_other_logs(tmp_path):
    skewed_log().write(tmp_path, "good")
    (tmp_path / "lzf").write_bytes(b"ZV\x01\x00\x10\x10\x00")
    with pytest.raises(InputError, match=r"lzf' is compressed with lzf, which is not read: run the job with spark\."):
        diagnose_log(tmp_path / "lzf")
    good, bad = diagnose_log(tmp_path)
    assert (len(good.skew), "compressed with lzf" in bad.notes[0]) == (1, True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b'{"a": 1}\n', "not an event log of Spark: it must be lines of JSON"),
        (b'{"Event":"click"}\n', "not an event log of Spark: it must be lines of JSON"),
        (b"BZh91AY", "not an event log of Spark but bzip2: decompress it first"),
        (b"\x28\xb5\x2f\xfd\0\0\0", "zstd data that is damaged"),
    ],
)
def test_what_is_no_log_is_refused_in_one_line(content, message, tmp_path):
    (tmp_path / "log").write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        diagnose_log(tmp_path / "log")
    assert "\n" not in str(caught.value)
