"""Three ways: all of them work on every row once, and what is reported is what was measured."""

from collections import Counter

import numpy as np
import pytest

pytest.importorskip("pyspark")

from hypothesis import given
from hypothesis import strategies as st

from keyspread.errors import InputError, KeyspreadError
from keyspread.run import gain, three_ways
from keyspread.run.gain import measure_gain
from keyspread.run.sources import Source, made_source
from keyspread.run.three_ways import KEYSPREAD, PLAIN, WAYS, Work
from keyspread.streams import ZipfStream

NONE = Work.of("none")


def zipf_source(spark, keys, messages):
    return made_source(spark, ZipfStream(1.4, keys, messages))


@pytest.fixture(scope="module")
def found(spark):
    return measure_gain(zipf_source(spark, keys=50, messages=3_000), 4, Work.of("wait:0.1ms"), rounds=2)


def keys_of(spark):
    rows = zipf_source(spark, keys=50, messages=3_000).rows.collect()
    return Counter(str(row["key"]) for row in rows)


def test_a_report_has_what_was_measured(spark, found):
    counts = keys_of(spark)
    assert (found.rows, found.timed_rows, found.keys) == (3_000, 3_000, len(counts))
    assert [(hot.value, hot.rows) for hot in found.hottest] == counts.most_common(10)
    assert {way: len(rounds) for way, rounds in found.rounds.items()} == dict.fromkeys(WAYS, 2)
    for way in (PLAIN, KEYSPREAD):
        assert found.loads[way].loads.sum() == 3_000
        assert found.loads[way].hot_loads.sum() == sum(many for many in counts.values() if many >= 3_000 / 20)
    assert found.loads[KEYSPREAD].busiest < 1.05 < found.loads[PLAIN].busiest
    assert found.way.startswith("fold: ")
    # No way is faster than its busiest worker, which waits for every row.
    for way in (PLAIN, KEYSPREAD):
        assert min(found.rounds[way]) >= 0.0001 * found.loads[way].loads.max()


def test_the_loads_of_plain_are_those_of_sparks_partitions(spark, found):
    from pyspark.sql import functions as F

    rows = zipf_source(spark, keys=50, messages=3_000).rows
    placed = rows.repartition(4, "key").groupBy(F.spark_partition_id().alias("p")).count().collect()
    assert found.loads[PLAIN].loads.tolist() == [dict(map(tuple, placed)).get(worker, 0) for worker in range(4)]


def test_the_gain_is_the_median_of_ratios(found):
    ratios = np.array(found.rounds[PLAIN]) / np.array(found.rounds[KEYSPREAD])
    assert found.gain() == pytest.approx(np.median(ratios))
    assert found.gain(KEYSPREAD) == found.gain(of=PLAIN) == 1
    assert found.to_dict()["ways"][PLAIN]["gain_of_keyspread"] == round(found.gain(), 3)


def test_settings_of_the_session_are_restored(spark, found):
    name = "spark.sql.adaptive.coalescePartitions.enabled"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "4"
    before = spark.conf.get(name, None)
    with gain._settings(spark, 7):
        assert (spark.conf.get(name), spark.conf.get("spark.sql.shuffle.partitions")) == ("false", "7")
    assert spark.conf.get(name, None) == before


@pytest.mark.slow
def test_of_many_rows_a_sample_is_timed(spark, monkeypatch):
    monkeypatch.setattr(gain, "SECONDS", 0.05)
    source = zipf_source(spark, keys=50, messages=3_000)
    sampled = measure_gain(source, 4, Work.of("wait:1ms"), rounds=1)
    assert sampled.rows == 3_000
    assert 20 < sampled.timed_rows < 300  # 50 rows on the busiest worker, at random


@pytest.mark.parametrize(
    ("column", "key"),
    [("if(id % 2 = 0, null, id)", ("k",)), ("array(id % 2)", ("k",)), ("string(id % 3)", ("k", "s.a"))],
)
@pytest.mark.slow
def test_keys_of_any_type(spark, column, key):
    rows = spark.range(40).selectExpr(f"{column} AS k", "struct(id % 2 AS a) AS s", "id")
    found = measure_gain(Source(rows, key, "rows", {}), 2, NONE, rounds=1)
    assert (found.keys, found.timed_rows) == (rows.select(*key).distinct().count(), 40)


def test_no_time_of_a_wrong_answer_is_reported(spark, monkeypatch):
    source = zipf_source(spark, keys=5, messages=100)
    right = three_ways.salted

    def wrong(*arguments, **options):
        return {**right(*arguments, **options), "1": (1, 1)}

    monkeypatch.setattr(three_ways, "salted", wrong)
    with pytest.raises(
        KeyspreadError, match=r"salting by hand has another answer .* for 1 keys, such as '1': \(1, 1\)"
    ):
        measure_gain(source, 2, NONE, rounds=1)


@given(st.sampled_from(["wait", "cpu"]), st.integers(1, 999), st.sampled_from(["us", "µs", "ms"]))
def test_work_is_read_as_it_is_written(kind, many, unit):
    work = Work.of(f"{kind}:{many}{unit}")
    assert (work.kind, work.seconds) == (kind, pytest.approx(many * (1e-3 if unit == "ms" else 1e-6)))
    word = "waiting" if kind == "wait" else "computing"
    assert str(work) == f"{many:g} {'ms' if unit == 'ms' else 'µs'} of {word} per row"


@pytest.mark.parametrize(
    "text", ["", "wait", "wait:", "wait:1", "wait:-1ms", "sleep:1ms", "wait:0ms", "wait:11s", "cpu:x"]
)
def test_work_that_cannot_be_read_is_refused(text):
    with pytest.raises(InputError, match="--work must"):
        Work.of(text)
