"""A folder of results: only complete files of this version of keyspread are read."""

import os

import pyarrow as pa
import pytest

import keyspread
from keyspread import InputError
from keyspread.paper.runs.run import grid
from keyspread.paper.runs.sweep import Results
from keyspread.streams import ZipfStream

RUNS = grid([ZipfStream(1.4, 50, 400)], scheme=["pkg", "wc"], workers=[3, 4], windows=5)


@pytest.fixture
def results(tmp_path):
    return Results(tmp_path / "results")


def test_only_what_is_not_there_is_missing(results):
    assert results.missing([*RUNS, *RUNS]) == RUNS
    results.add(RUNS[0].result())
    results.add(pa.concat_tables([RUNS[1].result(), RUNS[2].result()]))
    assert results.missing(RUNS) == RUNS[3:]
    assert results.done() == {run.id for run in RUNS[:3]}


def test_the_table_is_the_same_however_it_was_added(tmp_path):
    one, other = Results(tmp_path / "one"), Results(tmp_path / "other")
    for run in RUNS:
        one.add(run.result())
    other.add(pa.concat_tables([run.result() for run in reversed(RUNS)]))
    other.add(RUNS[0].result())  # a second time, in a file of its own: a run still counts once
    table = one.table(RUNS)
    assert table.num_rows == 5 * len(RUNS)
    assert other.table(RUNS).equals(table)
    assert one.table(RUNS[1:2]).num_rows == 5


def test_what_was_left_half_written_is_not_seen(results):
    assert results.table().num_rows == results.table(RUNS).num_rows == 0
    results.add(RUNS[0].result())
    open(os.path.join(results.folder, ".0123"), "wb").close()
    assert results.done() == {RUNS[0].id}


def test_a_table_of_another_version_is_refused(results, monkeypatch):
    monkeypatch.setattr(keyspread, "__version__", "0.0.7")
    results.add(RUNS[0].result())
    monkeypatch.undo()
    with pytest.raises(InputError, match=r"comes from keyspread 0\.0\.7 \(table format 2\), this is .*another folder"):
        results.missing(RUNS)


def test_a_broken_file_is_named(results):
    with open(os.path.join(results.folder, "part-1.parquet"), "w") as file:
        file.write("no table")
    with pytest.raises(InputError, match=r"part-1\.parquet: is not a table .*delete the file"):
        results.done()
