"""The history of a run: exact totals, a course that covers the whole run, and never more than its points."""

import json
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyspread.live_page.history import BUSIEST, BUSIEST_BY_HASH, LEAST_BUSY, POINTS, RunHistory
from page_batches import BEGIN, made

START, BATCH, BATCHES, RATE, SECONDS, LONGEST, WORST, BY_HASH = range(8)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(1, 9)), max_size=80), st.integers(2, 12))
def test_totals_and_course_as_counted_in_plain_python(batches, most):
    history = RunHistory("made", points=most)
    for number, (one, other, tenths) in enumerate(batches):
        history.add(made(number, (one, other), (other, one + 1), seconds=tenths / 10, malformed=one % 2))
    found = history.snapshot()
    assert len(found["points"]) <= most
    assert found["batches"] == len(batches) == sum(point[BATCHES] for point in found["points"])
    assert found["rows"] == sum(one + other for one, other, _ in batches)
    assert found["malformed"] == sum(one % 2 for one, _, _ in batches)
    busiest = [2 * max(one, other) / (one + other) if one + other else 1.0 for one, other, _ in batches]
    filled = [value for value, (one, other, _) in zip(busiest, batches, strict=True) if one + other]
    assert (found["worst_busiest"] is None) == (not filled)
    if filled:
        assert abs(found["mean_busiest"] - sum(filled) / len(filled)) < 1e-9
        assert found["worst_busiest"] == max(filled)
    # Every point is the summary of its own batches, in order and without gaps.
    at = 0
    for point in found["points"]:
        part = batches[at : at + point[BATCHES]]
        assert point[BATCH] == at
        assert point[START] == BEGIN + at
        assert abs(point[WORST] - max(busiest[at : at + len(part)])) < 1e-4
        assert point[LONGEST] == max(tenths for _, _, tenths in part) / 10
        assert abs(point[SECONDS] - sum(tenths for _, _, tenths in part) / 10 / len(part)) < 1e-3
        wall = len(part) - (at == 0) + (batches[0][2] / 10 if at == 0 else 0)  # one second from start to start
        assert abs(point[RATE] - sum(one + other for one, other, _ in part) / wall) < 0.01
        at += len(part)
    assert at == len(batches)


@pytest.mark.slow
def test_memory_is_bounded_however_long_it_runs():
    history = RunHistory("long")
    for number in range(3 * POINTS):
        history.add(made(number))
    size = len(json.dumps(history.snapshot()))
    for number in range(3 * POINTS, 50_000):
        history.add(made(number))
    found = history.snapshot()
    assert found["batches"] == 50_000
    assert POINTS / 2 <= len(found["points"]) <= POINTS
    assert len(json.dumps(found)) < 1.3 * size
    assert sys.getsizeof(history._points) < 10_000


def test_many_workers_are_reduced_to_those_that_matter():
    loads, by_hash = np.arange(1000), np.zeros(1000, int)
    by_hash[500] = 999
    found = RunHistory("many")
    found.add(made(0, loads, by_hash))
    last = found.snapshot()["last"]
    shown = [worker for worker, _, _ in last["loads"]]
    assert len(shown) <= BUSIEST + LEAST_BUSY + BUSIEST_BY_HASH
    assert set(range(1000 - BUSIEST, 1000)) | set(range(LEAST_BUSY)) | {500} <= set(shown)
    assert last["workers"] == 1000
    assert [500, 500, 999] in last["loads"]


def test_a_batch_without_what_spark_lacks():
    history = RunHistory("old Spark")
    history.add(made(0, by_hash=None, hottest=(), workers_of=(), head=None))
    last = history.snapshot()["last"]
    assert (last["by_hash"], last["hottest"], last["head"]) == (None, [], None)
    assert last["loads"] == [[0, 6, None], [1, 4, None]]


def test_a_stream_that_starts_again_is_running_again():
    history = RunHistory("again")
    versions = [history.version]
    for step in (lambda: history.add(made(0)), history.end, lambda: history.add(made(1))):
        step()
        versions.append(history.version)
    assert versions == sorted(set(versions))
    assert history.snapshot()["running"]
