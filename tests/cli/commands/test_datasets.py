"""`keyspread datasets`: JSON for machines, 80 columns for people, one line for mistakes."""

import gzip
import json
import os
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from keyspread.cli import main
from keyspread.streams import ORIGINALS, ZipfRanks, ZipfStream, look_alike, read_stream
from keyspread.streams.profile import profile

pytest.importorskip("typer")
from keyspread.cli import input_stream
from keyspread.cli.commands import datasets

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
    lines = [f"{1_400_000_000 + 60 * place}\t{'ann' if place % 3 else 'bob'}" for place in range(3000)]
    lines[7] = "broken \x1b[31m"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


def command(*arguments, code="import sys; from keyspread.cli import main; sys.exit(main())", **options):
    """Start the command as users do, in a separate process."""
    return subprocess.Popen(
        [sys.executable, "-c", code, "datasets", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "80", **options},
    )


def test_help_lists_the_commands_in_order(run, capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    places = [out.index(f"│ {name} ") for name in ("run", "simulate", "datasets", "doctor")]
    assert places == sorted(places)
    for arguments in ([], ["--help"], ["-h"]):
        code, out, _ = run(*arguments)
        assert code == 0
        assert all(name in out for name in ("list", "describe", "make"))


def test_list(run):
    code, out, err = run("list")
    assert (code, err) == (0, "")
    assert all(len(line) <= 80 for line in out.splitlines())
    assert all(name in out for name in (*ORIGINALS, "zipf", "drift", *datasets._FORMATS))
    assert "22,000,000   2,900,000   9.32 %  like Wikipedia page visits" in out


def test_list_as_json(run):
    code, out, err = run("list", "--json")
    assert (code, err, out.count("\n")) == (0, "", 1)
    given = json.loads(out)
    assert given["format"] == 1
    made = {one["name"]: one for one in given["made"]}
    assert list(made) == ["zipf", "drift", "wp", "tw", "ct"]
    assert made["zipf"]["p1"] == pytest.approx(0.3286, abs=5e-5)
    assert (made["wp"]["messages"], made["wp"]["keys"], made["wp"]["p1"]) == (22_000_000, 2_900_000, 0.0932)
    assert [one["name"] for one in given["formats"]] == [
        *("tsv", "wikibench", "words", "cashtags", "csv", "json", "parquet")
    ]


def test_the_list_has_every_format():
    from keyspread.streams.readers.formats import FORMATS

    assert tuple(datasets._FORMATS) == FORMATS


def test_describe_a_generated_stream_as_json(run):
    code, out, err = run(
        "describe", "--input", "zipf", *SMALL, "--skew", 1.2, "--seed", 3, "--top", 4, "--windows", 5, "--json"
    )
    assert (code, err, out.count("\n")) == (0, "", 1)
    given = json.loads(out)
    stream = ZipfStream(1.2, 1000, 20_000, 3)
    expected = profile(stream.encoded(), windows=5, top=4)
    for name in ("messages", "keys", "p1", "hot_keys", "hot_share", "half", "evenness", "exponent", "drift"):
        assert given[name] == getattr(expected, name)
    counts = Counter(stream.law().draw(0, 20_000).tolist())
    assert [(one["key"], one["messages"]) for one in given["top"]] == counts.most_common(4)
    assert [(one["hash"], one["share"]) for one in given["leaders"]] == list(expected.leaders)
    assert {one["key"] for one in given["leaders"]} == {1}
    assert given["p1_over_time"] == list(expected.p1_over_time)
    assert [tuple(point) for point in given["law"]] == list(expected.law)
    assert (given["from"], given["to"], given["malformed"]) == (None, None, {"count": 0})
    assert given["parameters"] == {
        "name": "zipf",
        "stream": "zipf",
        "skew": 1.2,
        "law_keys": 1000,
        "messages": 20_000,
        "stream_seed": 3,
    }


def test_keys_of_a_drifting_stream_are_found_wherever_they_are(run):
    _, out, _ = run(
        "describe", "--input", "drift", "--messages", 3000, "--keys", 600_000, "--every", 300, "--top", 30, "--json"
    )
    given = json.loads(out)
    assert all(1 <= one["key"] <= 600_000 for one in (*given["top"], *given["leaders"]))
    assert max(one["key"] for one in given["leaders"]) > 1 << 18
    assert given["drift"] > 0.5


def test_the_number_of_workers_decides_which_keys_are_hot(run):
    few, many = (
        json.loads(run("describe", "--input", "zipf", *SMALL, "--workers", workers, "--json")[1])
        for workers in (5, 200)
    )
    assert (few["hot_from"], many["hot_from"]) == (1 / 25, 1 / 1000)
    assert (few["workers"], many["workers"]) == (5, 200)
    assert few["hot_keys"] < many["hot_keys"]
    assert few["hot_share"] < many["hot_share"]
    _, out, _ = run("describe", "--input", "zipf", *SMALL, "--workers", 200)
    assert "hot keys (at least 0.10 %)" in out
    assert "With 200 workers, the hottest key alone would keep" in out
    assert "of the ten hottest keys of a window are new, on average" in " ".join(out.split())


def test_describe_a_look_alike(run):
    code, out, err = run("describe", "--input", "CT", "--scale", 0.2)
    assert (code, err) == (0, "")
    assert look_alike("ct", 0.2).title in out
    given = json.loads(run("describe", "--input", "ct", "--scale", 0.2, "--json")[1])
    assert (given["messages"], given["parameters"]["name"]) == (138_000, "ct")


def test_describe_a_file_as_json(run, stream_file):
    code, out, err = run("describe", "--input", stream_file, "--windows", 2, "--json")
    assert (code, err) == (0, "")
    given = json.loads(out)
    assert (given["format"], given["input"]) == (1, str(stream_file))
    assert (given["title"], given["parameters"]) == (stream_file.name, {"path": str(stream_file)})
    assert [(one["key"], one["messages"]) for one in given["top"]] == [("ann", 1999), ("bob", 1000)]
    assert [one["key"] for one in given["leaders"]] == ["ann", "ann"]
    assert (given["from"], given["to"]) == ("2014-05-13T16:53:20+00:00", "2014-05-15T18:52:20+00:00")
    assert given["malformed"]["count"] == 1
    assert given["malformed"]["first_line_number"] == 8


def test_describe_a_file_for_people(run, stream_file):
    code, out, err = run("describe", "--input", stream_file)
    assert (code, err) == (0, "")
    assert stream_file.name in out
    assert "2014-05-13 16:53 to 2014-05-15 18:52 UTC, 2.1 days" in out
    assert "skipped 1 malformed line, line 8: 'broken" in out
    assert "\x1b" not in out
    assert "ann                1,999  66.66 %" in out


def test_options_reach_the_reader(run, tmp_path):
    (tmp_path / "a.csv").write_text("at,user\n3,x\n1,y\n2,y\n")
    (tmp_path / "b.csv").write_text("at,user\n9,z\n")
    options = ["--format", "csv", "--key", "user", "--time", "at", "--windows", 4, "--json"]
    given = json.loads(run("describe", "--input", tmp_path, *options)[1])
    assert [one["key"] for one in given["leaders"]] == ["y", "y", "x", "z"]
    assert given["parameters"] == {"path": str(tmp_path), "file_format": "csv", "key": "user", "time": "at"}
    assert json.loads(run("describe", "--input", tmp_path / "*.csv", *options)[1])["messages"] == 4
    assert json.loads(run("describe", "--input", tmp_path, *options, "--messages", 2)[1])["messages"] == 2


def test_small_numbers_are_no_times(run, tmp_path):
    (tmp_path / "a.tsv").write_text("1\ta\n2\tb\n")
    assert json.loads(run("describe", "--input", tmp_path / "a.tsv", "--json")[1])["from"] is None


def test_any_key_can_be_shown(run, tmp_path):
    odd = ["", "a b", "\x1b[31mred", "$a_b$c", "_hidden", "long" * 50, "漢字" * 40, "[b]x"]
    lines = [f"{place}\t{key}\n" for place, key in enumerate(key for key in odd for _ in range(3))]
    (tmp_path / "$odd_[b].tsv").write_text("".join(lines), encoding="utf-8")
    code, out, err = run("describe", "--input", tmp_path / "$odd_[b].tsv", "--windows", 8)
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    given = json.loads(run("describe", "--input", tmp_path / "$odd_[b].tsv", "--windows", 8, "--json")[1])
    assert [one["key"] for one in given["leaders"]] == odd


SCREENS = [
    ["zipf", *SMALL],
    ["zipf", *SMALL, "--skew", "0"],
    ["zipf", "--keys", "1", "--messages", "5"],
    ["zipf", "--keys", "2", "--messages", "5", "--windows", "1"],
    ["zipf", "--messages", "0"],
    ["zipf", *SMALL, "--top", "0"],
    ["zipf", *SMALL, "--top", "30", "--windows", "300"],
    ["drift", *SMALL, "--every", "500", "--windows", "40"],
    ["ct"],
]


@pytest.mark.parametrize("arguments", SCREENS)
def test_the_screen_fits_80_columns(run, arguments):
    code, out, err = run("describe", "--input", *arguments)
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert "evenness" in out


def test_what_the_screen_says(run):
    _, out, _ = run("describe", *SMALL, "--skew", 1.4)
    assert "Zipf 1.4 over 1,000 keys" in out
    assert "key 1 " in out
    assert "█ hot keys  ▒ other keys" in out
    assert "drift 0." in out
    assert "With 50 workers, the hottest key alone would keep 1" in out
    _, out, _ = run("describe", *SMALL, "--skew", 0)
    assert "With 50 workers, no key alone would keep one of them busy." in out
    _, out, _ = run("describe", "--input", "drift", *SMALL, "--every", 500, "--windows", 40)
    assert "of them busy, and up to" in out
    assert "more changes" in out


def test_the_distribution_falls(run):
    """Check that each row of the plot is at least as long as the one above it."""
    _, out, _ = run("describe", *SMALL)
    rows = [
        line.split("┤" if "┤" in line else "│")[1].rstrip() for line in out.splitlines() if "┤" in line or "│" in line
    ]
    assert len(rows) >= 4
    assert [len(row) for row in rows] == sorted(len(row) for row in rows)
    assert len(rows[-1]) == 66


def test_a_terminal_without_unicode_and_neither_matplotlib_nor_pyspark_is_imported():
    code = "import sys; from keyspread.cli import main; main(); print({'matplotlib', 'pyspark'} & set(sys.modules))"
    process = command("describe", "--input", "zipf", *SMALL, code=code, PYTHONIOENCODING="ascii")
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert out.isascii()
    assert "# hot keys  = other keys" in out
    assert "?" not in out
    assert out.splitlines()[-1] == "set()"


DESCRIBE = ("describe", "--input")
REFUSED = [
    (
        [*DESCRIBE, "wp", "--skew", "1.4"],
        "--skew is for zipf and drift only, got 1.4 with wp: leave it out",
    ),
    (
        ["describe", "--scale", "0.5"],
        "--scale is for wp, tw and ct only, got 0.5 with zipf: leave it out",
    ),
    (["describe", "--every", "5"], "--every is for drift only, got 5 with zipf: leave it out"),
    (["describe", "--key", "a"], "--key is for files only, got 'a' with zipf: leave it out"),
    (
        [*DESCRIBE, "ct", "--messages", "5"],
        "--messages is for zipf, drift and files only, got 5 with ct: leave it out",
    ),
    (
        [*DESCRIBE, ".", "--seed", "1"],
        "--seed is for zipf, drift, wp, tw and ct only, got 1 with .: leave it out",
    ),
    (
        [*DESCRIBE, ".", "--skew", "1", "--scale", "0.5"],
        "--skew is for zipf and drift only, --scale for wp, tw and ct only, got 1, 0.5 with .: leave them out",
    ),
    (["describe", "--top", "-1"], "top must be at least 0, got -1"),
    (["describe", "--windows", "0"], "windows must be at least 1, got 0"),
    (["describe", "--workers", "0"], "workers must be at least 1, got 0"),
    (["describe", "--keys", "0"], "keys must be at least 1, got 0"),
    (["describe", "--skew", "steep"], "(see keyspread datasets describe --help)"),
    ([*DESCRIBE, "ct", "--scale", "3"], "scale is a share"),
    (
        [*DESCRIBE, "nowhere"],
        "nowhere is neither a generated stream (zipf, drift, wp, tw, ct) nor a file",
    ),
    ([*DESCRIBE, "no-*.tsv"], "no-*.tsv: no file matches this pattern"),
    ([*DESCRIBE, "ct", "zipf"], "the input is given twice, as --input ct and as zipf: leave one out"),
    (
        [*DESCRIBE, "tw"],
        "TW look-alike has 1,200,000,000 messages, describe reads at most 50,000,000 into memory: pass --scale 0.04",
    ),
    (
        ["describe", "--messages", "1e8"],
        "has 100,000,000 messages, describe reads at most 50,000,000 into memory: pass --messages",
    ),
    (
        [*DESCRIBE, ".", "--messages", "1e8"],
        "--messages 100,000,000 is more than describe reads into memory",
    ),
    (["make", "--input", "pareto", "--out", "a.tsv"], "unknown stream 'pareto'; known are zipf, drift, wp, tw, ct"),
    (["make", "--input", "zipf"], "--out is missing: name the file to write"),
    (["make", "--out", "a.csv"], "must end in .tsv, .tsv.gz or .parquet, got a.csv"),
    (["make", "--out", "no/where.tsv"], "no/where.tsv cannot be written: there is no folder"),
    (
        ["make", "--input", "wp", "--out", "a.tsv", "--skew", "1"],
        "--skew is for zipf and drift only, got 1 with wp: leave it out",
    ),
    (["no-such-command"], "No such command 'no-such-command'"),
    (["list", "--no-such-option"], "(see keyspread datasets list --help)"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_a_mistake_is_exit_code_2_and_one_line(run, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("keyspread: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert os.listdir() == []


def test_a_table_needs_a_key(run, tmp_path):
    (tmp_path / "a.csv").write_text("at,user\n3,x\n")
    code, _, err = run("describe", "--input", tmp_path / "a.csv")
    assert (code, err.count("\n")) == (2, 1)
    assert "no key column given: pass --key, the columns are 'at', 'user'" in err


def test_a_file_with_too_many_messages(run, stream_file, monkeypatch):
    monkeypatch.setattr(input_stream, "DESCRIBED_MESSAGES", 2000)
    code, out, err = run("describe", "--input", stream_file)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "has more than 2,000 messages, describe reads at most 2,000 into memory: pass --messages" in err
    assert run("describe", "--input", stream_file, "--messages", 2000)[0] == 0


def test_make(run, tmp_path):
    path = tmp_path / "made.parquet"
    code, out, err = run("make", "--input", "zipf", "--out", path, *SMALL, "--seed", 4)
    assert (code, err) == (0, "")
    assert out.startswith(f"20,000 messages of Zipf 1.4 over 1,000 keys written to {path}, ")
    stream = ZipfStream(1.4, 1000, 20_000, 4)
    assert (read_stream(path, key="key", time="time").hashes == stream.hashes()).all()
    code, out, err = run("make", "--input", "zipf", "--out", path, *SMALL)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "already exists: choose another name or pass --overwrite" in err
    assert run("make", "--input", "zipf", "--out", path, *SMALL, "--overwrite")[0] == 0
    assert (read_stream(path, key="key").hashes == ZipfStream(1.4, 1000, 20_000).hashes()).all()


def test_a_written_stream_has_the_same_description(run, tmp_path):
    path = tmp_path / "made.tsv.gz"
    arguments = ["--input", "drift", *SMALL, "--every", "3000"]
    assert run("make", *arguments, "--out", path)[0] == 0
    made, read = (json.loads(run("describe", *given, "--json")[1]) for given in (arguments, ["--input", path]))
    for name in ("messages", "keys", "p1", "half", "exponent", "law", "p1_over_time"):
        assert made[name] == read[name]
    assert [one["messages"] for one in made["top"]] == [one["messages"] for one in read["top"]]
    assert str(made["top"][0]["key"]) == read["top"][0]["key"]


def test_ctrl_c_leaves_nothing_behind(run, tmp_path, monkeypatch):
    there = []

    def interrupted(self, start, messages):
        there.extend(os.listdir(tmp_path))
        raise KeyboardInterrupt

    monkeypatch.setattr(ZipfRanks, "draw", interrupted)
    assert run("make", "--input", "zipf", "--out", tmp_path / "made.tsv") == (130, "", "")
    assert len(there) == 1
    assert os.listdir(tmp_path) == []


def test_numbers_are_found_by_their_hashes():
    stream = ZipfStream(0.5, 300_000, 10)
    hashes = np.array(stream.hashes())
    numbers = input_stream._numbers(stream, set(hashes.tolist()))
    assert [numbers[key] for key in hashes.tolist()] == stream.law().draw(0, 10).tolist()
