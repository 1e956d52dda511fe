"""Sweeps on Spark: the numbers equal those of the in-process simulator, also after a sweep was killed."""

import os
import signal
import subprocess
import sys
import time

import pytest

from keyspread.paper.runs.run import Run, grid
from keyspread.paper.runs.sweep import Results, _tasks, sweep
from keyspread.streams import DriftingZipfStream, ZipfStream

RUNS = [
    *grid(
        [ZipfStream(1.4, 200, 4000), DriftingZipfStream(1.2, 300, 4000, every=900, hottest=20)], scheme="dc", workers=7
    ),
    *grid([ZipfStream(0.0, 50, 3000, seed=2)], scheme=["pkg", "wc", "planned"], workers=[5, 70], seed=[0, 1]),
    Run.of(ZipfStream(2.0, 50, 3000), "greedy", 9, choices=3, half_life=500, threshold=0.01),
]


def test_the_same_numbers_as_in_process_in_one_data_set(spark, tmp_path):
    results, here = Results(tmp_path / "spark"), Results(tmp_path / "here")
    seen = []
    assert sweep(spark, RUNS, results, progress=lambda done, total: seen.append((done, total))) == len(RUNS)
    for run in RUNS:
        here.add(run.result())
    assert results.table(RUNS).equals(here.table(RUNS))
    total = sum(run.stream.messages for run in RUNS)
    assert seen[-1] == (total, total)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert spark.read.parquet(results.folder).count() == results.table().num_rows == 50 * len(RUNS)


def test_what_is_there_is_not_simulated_again(spark, tmp_path):
    results = Results(tmp_path)
    for run in RUNS[:3]:
        results.add(run.result())
    files = {name: os.stat(tmp_path / name).st_mtime_ns for name in os.listdir(tmp_path)}
    assert sweep(spark, RUNS[:5], results) == 2
    assert sweep(spark, RUNS[:5], results) == 0
    assert {name: os.stat(tmp_path / name).st_mtime_ns for name in files} == files
    assert results.table(RUNS[:5]).num_rows == 50 * 5


def test_tasks_keep_streams_together_and_start_with_the_expensive_ones():
    small = grid([ZipfStream(1.0, 10, 100)], scheme="dc", workers=range(1, 40))
    large = grid([ZipfStream(1.0, 10, 10**6)], scheme="dc", workers=[5])
    tasks = _tasks([*small, *large])
    assert tasks[0] == large
    assert [len(task) for task in tasks[1:]] == [16, 16, 7]
    assert all(len({run.stream for run in task}) == 1 for task in tasks)


_SWEEP = """
import sys
from keyspread.paper.runs.sweep import Results
from keyspread.paper.runs.run import grid
from keyspread.spark import session
from keyspread.paper.runs.sweep import sweep
from keyspread.streams import ZipfStream

streams = [ZipfStream(skew / 10, 1000, 400_000) for skew in range(1, 13)]
sweep(session(), grid(streams, scheme=["pkg", "dc"], workers=[5, 50]), Results(sys.argv[1]))
"""


@pytest.mark.slow
def test_a_killed_sweep_resumes_where_it_stopped(spark, tmp_path):
    killed, whole = Results(tmp_path / "killed"), Results(tmp_path / "whole")
    process = subprocess.Popen(
        [sys.executable, "-c", _SWEEP, killed.folder], start_new_session=True, stderr=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + 120
        while len(killed.done()) < 4:
            assert process.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < until, "it does not get anywhere"
            time.sleep(0.02)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    runs = grid([ZipfStream(skew / 10, 1000, 400_000) for skew in range(1, 13)], scheme=["pkg", "dc"], workers=[5, 50])
    left = len(killed.missing(runs))
    assert left, "nothing was left to do"
    assert sweep(spark, runs, killed) == left
    assert sweep(spark, runs, whole) == len(runs)
    assert killed.table(runs).equals(whole.table(runs))
