"""Real-time mode without a broker: what is refused, and that records are routed as a Sender or a plan routes them.

realtime_cases.py runs real queries, in a process of its own, because its Spark needs settings at its start.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

import keyspread as ks
from frames import HOT, setting
from keyspread import Settings
from keyspread.errors import InputError
from keyspread.spark import StreamWatch, plan, spread
from keyspread.spark._engine.capabilities import has_realtime_exchange
from keyspread.spark._routing.options import Routing
from keyspread.spark._routing.planned_sql import with_planned_worker
from keyspread.spark.realtime import realtime_settings
from keyspread.spark.realtime import settings as settings_module
from keyspread.spark.realtime.records import row_by_row_worker

CASES = Path(__file__).with_name("realtime_cases.py")


@pytest.fixture
def stream(spark):
    return spark.readStream.format("rate").load().selectExpr("value AS key", "timestamp")


@pytest.fixture
def rows(spark):
    return spark.range(0, 3000, 1, 3).selectExpr("id", f"{HOT} AS key", "1 + id % 5 AS weight")


def test_a_bounded_dataframe_is_refused(spark):
    with pytest.raises(InputError, match=r"^realtime=True is for streams, got a bounded DataFrame: leave it out$"):
        spread(spark.range(1), "id", 4, realtime=True)


@pytest.mark.parametrize(
    ("scheme", "reason"),
    [
        ("planned", "counts a whole batch before it routes the first row: give it a plan= made from earlier rows"),
        ("look-ahead", "reads all rows of a batch before it routes the first one"),
    ],
)
def test_schemes_that_need_a_batch_are_refused_with_the_reason(stream, scheme, reason):
    with pytest.raises(InputError, match=re.escape(f"{scheme} does not work with realtime=True, because it {reason}")):
        spread(stream, "key", 4, scheme, realtime=True)


@pytest.mark.connect
def test_one_error_names_every_missing_setting_and_sets_none(spark, stream):
    if not has_realtime_exchange(spark):
        pytest.skip("this Spark has no exchange in real-time mode")
    needed = realtime_settings()
    with pytest.raises(InputError) as caught:
        spread(stream, "key", 4, realtime=True)
    for name, value in (needed.application | needed.session).items():
        assert f"{name}={value} (is " in str(caught.value)
    assert spark.conf.get("spark.sql.streaming.realTimeMode.allowlistCheck") == "true"
    with setting(spark, "spark.sql.execution.python.udf.maxRecordsPerBatch", "1"), pytest.raises(InputError) as caught:
        spread(stream, "key", 4, realtime=True)
    assert "maxRecordsPerBatch" not in str(caught.value)


def test_a_plan_needs_no_setting_of_python(spark, stream):
    if not has_realtime_exchange(spark):
        pytest.skip("this Spark has no exchange in real-time mode")
    with pytest.raises(InputError) as caught:
        spread(stream, "key", 2, plan=ks.plan(np.arange(9), 2), realtime=True)
    assert "networkBufferMaxWaitTimeMs=1 (is not set)" in str(caught.value)
    assert "python" not in str(caught.value)


def test_an_engine_without_it_is_refused_in_one_line(monkeypatch, stream):
    monkeypatch.setattr(settings_module, "has_realtime_exchange", lambda spark: False)
    with pytest.raises(
        InputError, match=r"^realtime=True needs a Spark that exchanges rows in real-time mode, from 4.3"
    ):
        spread(stream, "key", 4, realtime=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"record": "key"}, "record='key' cuts the hot keys of a plan, and has no effect without plan="),
        ({"watch": StreamWatch()}, "watch= counts rows batch by batch"),
        ({"plan": 7}, "plan must be a keyspread.Plan, got 7"),
        ({"plan": ks.plan(np.arange(9), 3)}, "the plan is for 3 workers, not for 4"),
        ({"plan": ks.plan(np.arange(9), 4), "scheme": "dc"}, "plan= is given, so scheme='dc' has no effect"),
        ({"plan": ks.plan(np.arange(9), 4), "threshold": 0.1}, "plan= is given, so threshold= has no effect"),
    ],
)
def test_options_that_do_not_fit_are_refused(stream, given, message):
    with pytest.raises(InputError, match=re.escape(message)):
        spread(stream, "key", 4, realtime=True, **given)


def test_a_plan_with_hot_keys_needs_columns_that_tell_records_apart(monkeypatch, stream):
    from keyspread.spark.realtime import records as spread_records

    monkeypatch.setattr(spread_records, "check_realtime", lambda df, python: None)
    hot = ks.plan(np.zeros(9, np.int64), 4)
    with pytest.raises(
        InputError, match="there is no column 'topic': keep Kafka's topic, partition and offset, or name"
    ):
        spread(stream, "key", 4, plan=hot, realtime=True)
    with pytest.raises(InputError, match="there is no column 'nothing'"):
        spread(stream, "key", 4, plan=hot, record=["nothing"], realtime=True)
    assert spread(stream, "key", 4, plan=hot, record="timestamp", realtime=True).columns == stream.columns


def test_records_are_routed_as_the_sender_of_their_partition_routes_them(rows):
    weight, cases = F.col("weight"), []
    for scheme in ("d-choices", "per-key", "shuffle"):
        cases += [
            (Routing.of(4, scheme, scheme), None),
            (Routing.of(4, scheme, scheme, sender=Settings(seed=3)), weight),
        ]
    workers = [row_by_row_worker(F.xxhash64("key"), *case).alias(f"w{place}") for place, case in enumerate(cases)]
    found = rows.select(F.spark_partition_id().alias("p"), "key", "weight", *workers).collect()
    for place, (routing, weight) in enumerate(cases):
        for source in range(3):
            mine = [row for row in found if row.p == source]
            weights = None if weight is None else np.array([row.weight for row in mine])
            sender = ks.Sender(routing.scheme, 4, source=source, seed=routing.sender.seed)
            expected = sender.route(ks.hash_keys([row.key for row in mine]), weights).tolist()
            assert [row[f"w{place}"] for row in mine] == expected


@pytest.mark.connect
def test_a_plan_routes_records_by_what_identifies_them(rows):
    made = plan(rows, "key", 4)
    routed = with_planned_worker(rows, F.xxhash64("key"), made, "w", position=F.xxhash64("id", "weight"))
    found = routed.selectExpr("id", "key", "w", "xxhash64(key) AS hash").collect()
    hot = {key.hash: key.workers for key in made.head}
    cold = [row for row in found if row.hash not in hot]
    assert [row.w for row in cold] == made.route(np.array([row.hash for row in cold])).tolist()
    for hash_, workers in hot.items():
        assert {row.w for row in found if row.hash == hash_} == set(workers)
    loads = np.bincount([row.w for row in found], minlength=4)
    assert loads.max() < 1.1 * 3000 / 4
    shuffled = with_planned_worker(
        rows.repartition(7, F.rand(1)), F.xxhash64("key"), made, "w", position=F.xxhash64("id", "weight")
    )
    assert {row.id: row.w for row in shuffled.collect()} == {row.id: row.w for row in found}


@pytest.mark.slow
@pytest.mark.spark
def test_queries_in_real_time_mode_with_a_real_broker():
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_", "PYTEST_"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", str(CASES)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    skipped = re.search(r"^SKIPPED.*?: (.*)$", done.stdout, re.MULTILINE)
    if skipped:
        pytest.skip(skipped[1])
