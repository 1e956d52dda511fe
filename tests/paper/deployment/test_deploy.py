"""A deployment on Spark: routed as simulated, wrong results refused, and emulated work that takes its time."""

from dataclasses import replace

import pytest

pytest.importorskip("pyspark")

import keyspread as ks
from keyspread.paper.deployment import measure as emulated_work
from keyspread.paper.deployment import measure as latency
from keyspread.paper.deployment.measure import (
    Slots,
    WrongResultError,
    check_exact,
    deploy,
    measure_throughput,
    messages_at_sources,
    steps,
)
from keyspread.paper.deployment.setup import Setup

SETUP = Setup(skews=(2.0,), workers=2, sources=3, keys=50, milliseconds=0.1, seconds=0.1, arrivals=0.1)


@pytest.fixture
def clock(monkeypatch):
    """A clock that advances only by sleeping, and each sleep overshoots by a tenth of a millisecond."""

    class Clock:
        now, sleeps = 1000.0, 0

        def sleep(self, seconds):
            self.sleeps += 1
            self.now += seconds + 0.0001

    clock = Clock()
    monkeypatch.setattr(emulated_work.time, "time", lambda: clock.now)
    monkeypatch.setattr(emulated_work.time, "sleep", clock.sleep)
    return clock


def test_slept_work_takes_its_time_however_much_a_sleep_overshoots(clock):
    work = emulated_work.Work(0.001)
    finished = [work.do() for _ in range(1000)]
    assert work.end() == pytest.approx(1001.0, abs=0.0003)
    assert finished == sorted(finished)
    assert finished[-1] == pytest.approx(1001.0, abs=0.0003)
    assert clock.sleeps < 500  # several messages per sleep: waking costs CPU


def test_work_on_a_message_does_not_start_before_it_is_sent(clock):
    work = emulated_work.Work(0.001)
    assert work.do(not_before=1005.0) == pytest.approx(1005.001, abs=0.0002)
    assert work.do(not_before=1003.0) == pytest.approx(1005.002, abs=0.0002)  # sent earlier, but it had to wait


def test_a_stream_is_routed_as_in_the_simulation(spark):
    with messages_at_sources(spark, SETUP, 2.0, 400) as rows:
        run = measure_throughput(rows, SETUP, 2.0, "d-choices", 300, 0)  # the first 300 of them
    simulated = ks.simulate(SETUP.stream(2.0, 300).encoded(), "d-choices", SETUP.workers, sources=SETUP.sources)
    assert run.longest_queue == simulated.loads.max()
    assert run.replicas == simulated.replicas
    assert run.state_bytes == 16 * simulated.replicas
    assert run.sending + run.working + run.merging == pytest.approx(run.seconds)


def test_every_step_is_reported_and_the_first_run_is_not_counted(spark):
    setup = replace(SETUP, schemes=("sg",), arrivals=0, repetitions=2)
    reported = []
    found = deploy(spark, setup, reported.append)
    assert len(reported) == steps(setup)
    assert [run.repetition for run in found.throughput] == [0, 1]
    assert found.latency == ()


def test_a_run_whose_workers_start_too_late_is_not_counted(spark, monkeypatch):
    monkeypatch.setattr(latency, "_TRIES", 1)
    slots = Slots(spark, SETUP.workers)
    with (
        messages_at_sources(spark, SETUP, 2.0, SETUP.arriving) as rows,
        pytest.raises(latency.TooSlowError, match="2 workers were not running after 0 s: use fewer"),
    ):
        latency.measure_queues(rows, slots, SETUP, 2.0, "key", head_start=0)


def test_a_result_that_is_not_exact_is_refused():
    stream = SETUP.stream(2.0, 100)
    keys = stream.law().draw(0, 100).tolist()
    counted = {key: keys.count(key) for key in set(keys)}
    check_exact(stream, counted)
    counted[keys[0]] -= 1
    with pytest.raises(WrongResultError, match="off by 1 of 100 messages"):
        check_exact(stream, counted)
