"""A few inputs of every target of the fuzzer, and what it found; `./dev python tests/fuzz.py` tries many more."""

import pyarrow as pa
import pytest

pytest.importorskip("typer")
pytest.importorskip("pyspark")

import keyspread as ks
from fuzz import TARGETS, Input, fuzz, one_input, try_input
from keyspread.paper.runs.run import SCHEMA
from keyspread.paper.runs.sweep import Results


@pytest.mark.parametrize("target", TARGETS)
def test_one_line_or_a_right_answer(target):
    counts = fuzz(target, 40 if target != "command" else 15, seed=1, seconds=60)
    assert counts["failures"] == []


def test_an_input_can_be_replayed():
    assert one_input("csv", 7, seed=3) == one_input("csv", 7, seed=3) != one_input("csv", 8, seed=3)


def test_a_wrong_answer_and_a_hang_are_failures():
    assert try_input("tsv", Input(b"1\ta\n", ["b"]), 60)[0] == "FAILED"
    assert try_input("tsv", Input(b"1\ta\n", ["a"]), 60) == ("answered", "")
    assert try_input("command", Input(["simulate", "--messages", "1e7"]), 0.01)[1] == (
        "no answer after 0.01 seconds of processor time"
    )


def test_a_plan_nested_too_deeply_is_refused():
    with pytest.raises(ks.InputError, match="not a keyspread plan"):
        ks.Plan.from_json("[" * 100_000)


def test_a_damaged_table_is_refused_in_one_line(tmp_path):
    Results(tmp_path).add(pa.Table.from_pylist([dict.fromkeys(SCHEMA.names) | {"run": "r"}], schema=SCHEMA))
    (part,) = tmp_path.glob("*.parquet")
    data = part.read_bytes()
    for damaged in (
        b"\xef\xbb\xbf" + data,
        data[:-100] + b"\x0f" * 50 + data[-50:],
        data[:4] + b"\0" * 300 + data[304:],
    ):
        part.write_bytes(damaged)
        with pytest.raises(ks.InputError, match=r"part-.*: is (not a table|damaged) \([^\n]*\): delete the file"):
            Results(tmp_path).table()
