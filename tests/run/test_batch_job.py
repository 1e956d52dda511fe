"""The pipeline: every source and scheme gives the counts of plain Python, and the reported loads are the real ones."""

import json
from collections import Counter
from itertools import pairwise

import pytest

pytest.importorskip("pyspark")

import numpy as np
from pyspark.sql import functions as F

import keyspread as ks
from keyspread.errors import InputError
from keyspread.run.pipeline import check_scheme, choices_of, run_job
from keyspread.run.sources import Source, made_source
from keyspread.streams import ZipfRanks, ZipfStream, zipf

LAW = ZipfStream(1.4, 300, 6_000, 5)
WORKERS, SENDERS = 8, 3


@pytest.fixture(scope="module")
def ranks():
    return ZipfRanks(LAW.skew, LAW.keys, LAW.seed).draw(0, LAW.messages)


def parts(array):
    """Return the rows of each sender: Spark splits a range evenly."""
    cuts = [len(array) * sender // SENDERS for sender in range(SENDERS + 1)]
    return [array[begin:end] for begin, end in pairwise(cuts)]


def naive(hashes, route):
    """Count loads and replicas row by row."""
    workers = np.concatenate([route(sender, part) for sender, part in enumerate(parts(hashes))])
    return np.bincount(workers, minlength=WORKERS).tolist(), set(zip(hashes.tolist(), workers.tolist(), strict=True))


def test_a_generated_source_is_the_stream_of_the_simulator_whatever_is_read_of_it(spark, ranks):
    rows = made_source(spark, LAW, senders=4).rows
    found = rows.orderBy("id").select(F.xxhash64("key").alias("hash")).collect()
    assert np.array_equal([row.hash for row in found], zipf(LAW.skew, LAW.keys, LAW.messages, LAW.seed))
    some = made_source(spark, LAW).rows.where("id % 7 = 3 AND id > 50").collect()
    assert [row.key for row in sorted(some)] == [int(ranks[row.id]) for row in sorted(some)]


@pytest.mark.parametrize("scheme", ["d-choices", "planned"])
def test_counts_loads_and_replicas_are_those_of_plain_python(spark, ranks, scheme):
    steps = []
    options = {} if scheme == "planned" else {"seed": 2}
    result = run_job(made_source(spark, LAW, SENDERS), WORKERS, scheme, progress=steps.append, **options)
    counts = Counter(ranks.tolist())
    assert {row["key"]: row["count"] for row in result.merged.collect()} == counts
    assert (result.rows, result.keys) == (LAW.messages, len(counts))
    hot = {key for key, rows in counts.items() if rows >= LAW.messages / (5 * WORKERS)}
    assert result.hot_keys == len(hot)
    assert steps == ["counting keys"] * (scheme == "planned") + ["routing and merging", "comparing schemes"]
    assert list(result.seconds) == steps

    hashes = ks.hash_keys(ranks.astype(np.int64))
    ways = {
        name: lambda sender, part, name=name: ks.Sender(name, WORKERS, source=sender, **options).route(part)
        for name in {scheme, "key", "partial-key"} - {"planned"}
    }
    if scheme == "planned":
        ways["planned"] = lambda sender, part: result.plan.route(part, start=sender << 33)
        assert result.choices is None
    else:
        shares = sorted((counts[key] / LAW.messages for key in hot), reverse=True)
        assert result.choices == ks.find_choices(shares, WORKERS)
    assert result.outcomes[0].scheme == scheme
    assert {outcome.scheme for outcome in result.outcomes} == set(ways)
    for outcome in result.outcomes:
        loads, pairs = naive(hashes, ways[outcome.scheme])
        assert outcome.loads.tolist() == loads
        assert outcome.replicas == len(pairs)
        assert outcome.hot_loads.sum() == sum(counts[key] for key in hot)
    _, pairs = naive(hashes, ways[scheme])
    assert [(hot.rows, hot.workers) for hot in result.hottest] == [
        (counts[hot.value], len({w for h, w in pairs if h == ks.hash_keys([hot.value])[0]})) for hot in result.hottest
    ]
    assert [hot.rows for hot in result.hottest] == [rows for _, rows in counts.most_common(10)]
    json.dumps(result.to_dict())
    result.release()


def test_several_columns_and_fields_are_a_key(spark):
    rows = spark.range(9).selectExpr("struct(id % 2 AS b) AS a", "if(id % 3 = 0, null, 'x') AS count", "id")
    result = run_job(Source(rows, ("a.b", "count"), "rows", {}), 2)
    merged = {(row[0], row[1]): row[2] for row in result.merged.collect()}
    assert merged == {(0, None): 2, (1, None): 1, (0, "x"): 3, (1, "x"): 3}
    assert [column.lower() for column in result.merged.columns[:2]] == ["b", "count"]
    assert result.hottest[0].value in ({"b": 0, "count": "x"}, {"b": 1, "count": "x"})
    assert "null" in str(result)


@pytest.mark.parametrize(
    ("scheme", "workers", "options", "message"),
    [
        ("planned", 2, {"tolerance": 0.1}, "tolerance= has no effect with scheme planned"),
        ("greedy", 2, {}, "scheme 'greedy' needs choices"),
    ],
)
def test_schemes_and_options_that_do_not_fit_are_refused(scheme, workers, options, message):
    with pytest.raises(InputError, match=message):
        check_scheme(scheme, workers, options)


def test_the_choice_of_d_depends_on_the_tolerance():
    assert choices_of("d-choices", 50, [0.3, 0.1], {"tolerance": 0.1}) < choices_of("d-choices", 50, [0.3, 0.1], {})
    assert choices_of("w-choices", 50, [0.3], {}) is None
