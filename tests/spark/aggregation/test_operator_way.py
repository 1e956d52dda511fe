"""Whether an operator's keys stay whole or are cut: decided by the counts, the same result both ways, and said why."""

import sys

import numpy as np
import pytest

pytest.importorskip("pyspark")

from pyspark import cloudpickle

import keyspread as ks
from frames import hashes, setting
from keyspread import Operator
from keyspread.spark import Watch, aggregate, plan

WORKERS = 4
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Sum(Operator):
    """The sum of `id`."""

    state = "total long"
    schema = "total long"

    def zero(self):
        return {"total": 0}

    def update(self, state, rows):
        return {"total": state["total"] + int(rows["id"].sum())}

    def merge(self, state, other):
        return {"total": state["total"] + other["total"]}

    def finish(self, state):
        return state


def keyed(spark, key):
    return spark.range(0, 8000, 1, 3).selectExpr("id", f"{key} AS key")


def run(rows, **options):
    watch = Watch()
    return aggregate(rows, "key", Sum(), WORKERS, watch=watch, **options), watch


def exchanges(df, capsys):
    capsys.readouterr()
    df.explain()
    return capsys.readouterr().out.count("Exchange ")


@pytest.mark.connect
@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_even_keys_stay_whole(spark, adaptive):
    rows = keyed(spark, "concat('k', id % 500)")
    with setting(spark, "spark.sql.adaptive.enabled", adaptive):
        found, watch = run(rows)
        assert {row.key: row.total for row in found.collect()} == {
            row.key: row[1] for row in rows.groupBy("key").agg({"id": "sum"}).collect()
        }
    assert str(watch.way).startswith("key: no key is hot enough to matter, with whole keys the busiest worker has 1.0")


def test_one_exchange_for_whole_keys_two_for_cut_ones(spark, capsys):
    assert exchanges(aggregate(keyed(spark, "id % 500"), "key", Sum(), WORKERS), capsys) == 1
    assert exchanges(aggregate(keyed(spark, "if(id % 2 = 0, -1, id)"), "key", Sum(), WORKERS), capsys) == 2


def test_a_hot_key_is_cut(spark):
    rows = keyed(spark, "if(id % 2 = 0, 'hot', concat('k', id % 500))")
    found, watch = run(rows)
    assert [repr(tuple(row)) for row in found.orderBy("key").collect()] == [
        repr(tuple(row)) for row in rows.groupBy("key").agg({"id": "sum"}).orderBy("key").collect()
    ]
    assert str(watch.way) == "planned: with whole keys the busiest worker would have 2.00 x the even load"
    assert watch.balance.imbalance < 0.01


@pytest.mark.parametrize("share", [0.2, 0.27, 0.28, 0.4])
def test_the_limit_is_1_1_times_the_even_load(spark, share):
    """A key of 27.5 % is 1.1 times the load of one of four workers."""
    rows = keyed(spark, f"if(id < {int(8000 * share)}, -1, id)")
    keys = np.array([row[2] for row in hashes(rows, "key")], np.int64)
    busiest = ks.plan(keys, WORKERS, threshold=1.0).loads.max() / 2000
    watch = run(rows)[1]
    assert watch.way.name == ("key" if busiest <= 1.1 else "planned")
    assert (busiest <= 1.1) == (share <= 0.275)


def test_rows_of_a_key_are_on_one_worker_in_the_way_of_whole_keys(spark):
    rows = keyed(spark, "id % 500")
    found, watch = run(rows)
    assert found.count() == 500
    assert watch.balance.rows == 8000
    assert watch.balance.loads.max() <= 1.1 * 2000


@pytest.mark.parametrize("threshold", [None, 1.0])
def test_a_plan_of_the_caller_decides(spark, threshold):
    rows = keyed(spark, "if(id % 2 = 0, -1, id)")
    made = plan(rows, "key", WORKERS, threshold=threshold)
    found, watch = run(rows, plan=made)
    assert found.count() == 4001
    assert str(watch.way) == "planned: the caller passed a plan"


def test_no_rows(spark):
    found, watch = run(keyed(spark, "id % 5").where("false"))
    assert found.collect() == []
    assert watch.way.name == "key"


def test_an_explicit_scheme_is_never_replaced(spark):
    watch = Watch()
    aggregate(keyed(spark, "id % 500"), "key", Sum(), WORKERS, "planned", watch=watch)
    assert str(watch.way) == "planned: the caller chose this scheme"
