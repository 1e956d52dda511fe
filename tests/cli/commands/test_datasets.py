"""`keyspread datasets`: JSON for machines, 80 columns for people, one line for mistakes."""

import gzip
import json
import os
from collections import Counter

import pytest

pytest.importorskip("typer")

from keyspread.cli import main
from keyspread.streams import ORIGINALS, ZipfRanks, ZipfStream, read_stream
from keyspread.streams.encoded import profile

SMALL = ["--messages", "2e4", "--keys", "1e3"]


@pytest.fixture
def run(capsys, monkeypatch):
    """Run in this process: (exit code, stdout, stderr)."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments):
        code = main(["datasets", *(str(argument) for argument in arguments)])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def stream_file(tmp_path):
    path = tmp_path / "[b]clicks.tsv.gz"
    lines = [f"{60 * place}\t{'ann' if place % 3 else 'bob'}" for place in range(3000)]
    lines[7] = "broken \x1b[31m"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


def test_list(run):
    code, out, err = run("list")
    assert (code, err) == (0, "")
    assert all(len(line) <= 80 for line in out.splitlines())
    assert all(name in out for name in (*ORIGINALS, "zipf", "drift"))
    assert "22,000,000   2,900,000   9.32 %  like Wikipedia page visits" in out


def test_describe_a_generated_stream_as_json(run):
    arguments = ("--input", "zipf", *SMALL, "--skew", 1.2, "--seed", 3, "--top", 4, "--windows", 5, "--workers", 200)
    code, out, err = run("describe", *arguments, "--json")
    assert (code, err, out.count("\n")) == (0, "", 1)
    said = json.loads(out)
    stream = ZipfStream(1.2, 1000, 20_000, 3)
    expected = profile(stream.encoded(), windows=5, top=4, workers=200)
    for name in ("messages", "keys", "p1", "workers", "hot_from", "hot_keys", "hot_share", "half", "exponent", "drift"):
        assert said[name] == getattr(expected, name)
    counts = Counter(stream.law().draw(0, 20_000).tolist())
    assert [(key["key"], key["messages"]) for key in said["top"]] == counts.most_common(4)
    assert [(key["hash"], key["share"]) for key in said["leaders"]] == list(expected.leaders)
    assert (said["format"], said["input"], said["malformed"]["count"]) == (1, "zipf", 0)
    numbers = {"skew": 1.2, "law_keys": 1000, "messages": 20_000, "stream_seed": 3}
    assert said["parameters"] == {"name": "zipf", "stream": "zipf", **numbers}


def test_describe_a_file(run, stream_file):
    code, out, err = run("describe", "--stream", stream_file, "--windows", 2, "--json")
    assert code == 0
    assert err.startswith(f"keyspread: note: {stream_file}: skipped 1 malformed line, line 8: 'broken")
    said = json.loads(out)
    assert (said["input"], said["title"]) == (str(stream_file), stream_file.name)
    assert [(key["key"], key["messages"]) for key in said["top"]] == [("ann", 1999), ("bob", 1000)]
    assert [key["key"] for key in said["leaders"]] == ["ann", "ann"]
    assert said["malformed"]["count"] == 1
    code, out, _ = run("describe", "--input", stream_file)
    assert stream_file.name in out
    assert "\x1b" not in out
    assert "ann                1,999  66.66 %" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (SMALL, "With 50 workers, the hottest key alone would keep 1"),
        ([*SMALL, "--skew", "0"], "With 50 workers, no key alone would keep one of them busy."),
        (["--keys", "1", "--messages", "5"], "fitted Zipf exponent              none"),
        (["--messages", "0"], "Zipf 1.4 over 10,000 keys"),
        (["--input", "drift", *SMALL, "--every", "500", "--windows", "40", "--top", "30"], "more changes"),
        (["--input", "drift", *SMALL, "--every", "500", "--windows", "40"], "of them busy, and up to"),
        (["--input", "CT", "--scale", "0.2"], "CT look-alike, 0.2 of its size"),
    ],
)
def test_the_screen_fits_80_columns(run, arguments, said):
    code, out, err = run("describe", *arguments)
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert said in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["describe", "--input", "wp", "--skew", "1.4"],
            "--skew is for zipf and drift only, got 1.4 with wp: leave it",
        ),
        (["describe", "--scale", "0.5"], "--scale is for wp, tw and ct only, got 0.5 with zipf: leave it out"),
        (["describe", "--key", "a"], "--key is for files only, got 'a' with zipf: leave it out"),
        (["describe", "--input", ".", "--seed", "1"], "--seed is for zipf, drift, wp, tw and ct only, got 1 with ."),
        (
            ["describe", "--input", "nowhere"],
            "nowhere is neither a generated stream (zipf, drift, wp, tw, ct) nor a file",
        ),
        (["describe", "zipf"], "unexpected extra argument(s) (zipf)"),
        (["make", "--input", "zipf"], "--out is missing: name the file to write"),
        (["make", "--out", "a.csv"], "must end in .tsv, .tsv.gz or .parquet, got a.csv"),
        (
            ["make", "--input", "wp", "--out", "a.tsv", "--skew", "1"],
            "--skew is for zipf and drift only, got 1 with wp",
        ),
    ],
)
def test_a_mistake_is_exit_code_2_and_one_line(run, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("keyspread: error: ")
    assert message in err
    assert os.listdir() == []


def test_make(run, tmp_path):
    path = tmp_path / "made.parquet"
    code, out, err = run("make", "--input", "zipf", "--out", path, *SMALL, "--seed", 4)
    assert (code, err) == (0, "")
    assert out.startswith(f"20,000 messages of Zipf 1.4 over 1,000 keys written to {path}, ")
    assert (read_stream(path, key="key", time="time").hashes == ZipfStream(1.4, 1000, 20_000, 4).hashes()).all()
    code, _, err = run("make", "--out", path, *SMALL)
    assert (code, err.count("\n")) == (2, 1)
    assert "already exists: choose another name or pass --overwrite" in err
    assert run("make", "--out", path, *SMALL, "--overwrite")[0] == 0


def test_ctrl_c_leaves_nothing_behind(run, tmp_path, monkeypatch):
    def interrupted(self, start, messages):
        assert len(os.listdir(tmp_path)) == 1
        raise KeyboardInterrupt

    monkeypatch.setattr(ZipfRanks, "draw", interrupted)
    assert run("make", "--input", "zipf", "--out", tmp_path / "made.tsv") == (130, "", "")
    assert os.listdir(tmp_path) == []
