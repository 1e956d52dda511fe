"""Queues of workers: the closed form equals a loop over the messages, and so does the summary."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyspread import InputError
from keyspread.paper.runs.queueing import finish_times, saturation, waiting


def one_by_one(sent, workers, work):
    """Process the messages one by one: a worker starts one when it has arrived and the one before is finished."""
    free, finished = {}, []
    for when, worker in zip(sent, workers, strict=True):
        free[worker] = max(when, free.get(worker, 0.0)) + work
        finished.append(free[worker])
    return finished


def queue_lengths(sent, finished, workers):
    """Return, for each message, how many messages its worker has, sent and not finished, when it is sent."""
    everything = list(zip(sent, finished, workers, strict=True))
    return [
        sum(begun <= when < ended for begun, ended, other in everything if other == worker)
        for when, _, worker in everything
    ]


GAPS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=60)


@given(GAPS, st.integers(1, 4))
def test_finish_times_are_those_of_a_loop(messages, work):
    sent = np.cumsum([gap for gap, _ in messages]).astype(float)
    workers = np.array([worker for _, worker in messages], np.int32)
    assert finish_times(sent, workers, float(work)).tolist() == one_by_one(sent, workers, work)


@given(GAPS, st.integers(1, 4))
def test_waiting_is_what_can_be_counted(messages, work):
    sent = np.cumsum([gap for gap, _ in messages]).astype(float)
    workers = np.array([worker for _, worker in messages], np.int32)
    finished = np.array(one_by_one(sent, workers, work))
    found = waiting(sent, finished, workers)
    took = finished - sent
    assert found.highest_average == pytest.approx(max(took[workers == one].mean() for one in set(workers.tolist())))
    assert found.longest_queue == max(queue_lengths(sent.tolist(), finished.tolist(), workers.tolist()))
    assert (found.p50, found.p95, found.p99) == pytest.approx(tuple(np.percentile(took, [50, 95, 99])))


def test_the_busiest_worker_saturates_first():
    assert saturation(np.array([10, 10, 10, 10]), work=0.001) == pytest.approx(4000)
    assert saturation(np.array([40, 0, 0, 0]), work=0.001) == pytest.approx(1000)
    with pytest.raises(InputError, match="loads must have at least one message"):
        saturation(np.array([0, 0]), work=0.001)


def test_nothing_has_no_latency():
    none = np.empty(0)
    assert finish_times(none, np.empty(0, np.int32), 1.0).size == 0
    with pytest.raises(InputError, match="there is no message"):
        waiting(none, none, np.empty(0, np.int32))
