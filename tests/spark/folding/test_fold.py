"""Folding where the rows are: the same result for any rows, sizes of batches and of tables, and one pass over them."""

import sys
from collections import defaultdict
from contextlib import ExitStack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from pyspark import cloudpickle

from frames import setting
from keyspread import ColumnOperator, Operator
from keyspread.errors import InputError
from keyspread.folding import column_states, operator_states
from keyspread.folding import states as keyed_states
from keyspread.folding.column_states import ColumnStates
from keyspread.folding.fold import finish_mixed, fold_where_rows_are
from keyspread.folding.operator_states import OperatorStates
from keyspread.folding.states import numbered
from keyspread.spark import Watch, aggregate

cloudpickle.register_pickle_by_value(sys.modules[__name__])

WORKERS = 4
STATE = pa.schema([("total", pa.int64()), ("ids", pa.list_(pa.int64()))])


class Rows(Operator):
    """Every row of a key: what is lost or doubled shows."""

    state = schema = "total long, ids array<long>"
    batches = "arrow"

    def zero(self):
        return {"total": 0, "ids": []}

    def update(self, state, rows):
        assert len(set(rows["key"].to_pylist())) == 1
        return self.merge(state, {"total": pc.sum(rows["id"]).as_py(), "ids": rows["id"].to_pylist()})

    def merge(self, state, other):
        return {"total": state["total"] + other["total"], "ids": [*state["ids"], *other["ids"]]}

    def finish(self, state):
        return state


class RowsByColumn(ColumnOperator):
    """The same for whole tables."""

    state = schema = "total long, ids array<long>"

    def partial(self, rows, key):
        made = rows.group_by(key).aggregate([("id", "sum"), ("id", "list")])
        return made.rename_columns([*key, "total", "ids"])

    def merge(self, states, key):
        (name,) = key
        together = defaultdict(lambda: [0, []])
        for row in states.to_pylist():
            together[row[name]][0] += row["total"]
            together[row[name]][1] += row["ids"]
        totals, ids = zip(*together.values(), strict=True)
        return pa.table({name: pa.array(together, states.schema.field(name).type), "total": totals, "ids": ids})


OWN = {
    "by key": lambda: OperatorStates(Rows(), 1, ["id", "key"], STATE, STATE),
    "by column": lambda: ColumnStates(RowsByColumn(), ["key"], ["id", "key"], STATE, STATE),
}


def batches_of(keys, size):
    """Return batches as Spark sends them: the hash, the key, and all columns."""
    hashes = [hash(key) for key in keys]
    for begin in range(0, len(keys), size):
        part = keys[begin : begin + size]
        columns = [hashes[begin : begin + size], part, list(range(begin, begin + len(part))), part]
        kinds = [pa.int64(), pa.string(), pa.int64(), pa.string()]
        yield pa.record_batch([pa.array(*one) for one in zip(columns, kinds, strict=True)], names=numbered(4))


keys_of_a_task = st.lists(
    st.one_of(st.just("hot"), st.none(), st.integers(0, 6).map(str), st.integers(0, 10**6).map(str)), max_size=80
)


@pytest.mark.parametrize("kind", OWN)
@given(tasks=st.lists(keys_of_a_task, max_size=3), size=st.integers(1, 40), most=st.sampled_from([2, 5, 50_000]))
def test_every_row_counts_once_whatever_is_folded(kind, tasks, size, most):
    own, moved, expected = OWN[kind](), [], defaultdict(list)
    with pytest.MonkeyPatch.context() as patch:
        for module in (operator_states, column_states, keyed_states):
            patch.setattr(module, "MOST_STATES", most)
        for task in tasks:
            moved += fold_where_rows_are(own, WORKERS, batches_of(task, size))
            for number, key in enumerate(task):
                expected[key].append(number)
    if not moved:
        assert not any(tasks)
        return
    (result,) = finish_mixed(own, [pa.concat_tables(moved)])
    keys, totals, ids = (column.to_pylist() for column in result.columns)
    assert {key: sorted(one) for key, one in zip(keys, ids, strict=True)} == {
        key: sorted(one) for key, one in expected.items()
    }
    assert totals == [sum(one) for one in ids]


@pytest.mark.parametrize("kind", OWN)
def test_a_task_that_runs_again_sends_the_same(kind):
    """Spark compares what attempts send on, and runs again what has read something else."""
    random = np.random.default_rng(0)
    keys = random.zipf(1.5, 3000).astype(str).tolist()
    once, again = (list(fold_where_rows_are(OWN[kind](), WORKERS, batches_of(keys, 500))) for _ in range(2))
    assert len(once) == len(again)
    assert all(a.equals(b) for a, b in zip(once, again, strict=True))


@pytest.mark.parametrize("kind", OWN)
def test_hot_keys_move_as_states_and_rare_keys_as_rows(kind):
    keys = ["hot"] * 400 + [f"k{number}" for number in range(600)]
    moved = pa.concat_tables(fold_where_rows_are(OWN[kind](), WORKERS, batches_of(keys, 1000)))
    is_row = moved.column(2).to_pylist()
    of_hot = [flag for flag, key in zip(is_row, moved.column(1).to_pylist(), strict=True) if key == "hot"]
    assert of_hot == [False]
    rare = [f"k{number}" for number in range(1000)]
    sent = list(fold_where_rows_are(OWN[kind](), WORKERS, batches_of(rare, 1000)))
    assert all(all(one.column(2).to_pylist()) for one in sent)


def test_the_table_of_a_task_is_bounded(monkeypatch):
    """However many keys there are: it is sent on when it has too many states, or too large ones."""
    keys = [f"k{number}" for number in range(200) for _ in range(8)]
    for name, value in {"MOST_STATES": 50, "MOST_BYTES": 2000}.items():
        with monkeypatch.context() as patch:
            patch.setattr(operator_states, name, value)
            sent = list(fold_where_rows_are(OWN["by key"](), WORKERS, batches_of(keys, 80)))
            assert max(one.num_rows for one in sent) <= 60
            assert sum(one.num_rows for one in sent) == 200


# On Spark


class Sum(Operator):
    """The sum of `id`."""

    state = schema = "total long"

    def zero(self):
        return {"total": 0}

    def update(self, state, rows):
        return {"total": state["total"] + int(rows["id"].sum())}

    def merge(self, state, other):
        return {"total": state["total"] + other["total"]}

    def finish(self, state):
        return state


def keyed(spark, key, partitions=4):
    return spark.range(0, 8000, 1, partitions).selectExpr("id", f"{key} AS key")


def as_set(df):
    return {tuple(map(repr, row)) for row in df.collect()}


@pytest.mark.connect
@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_the_result_is_that_of_a_sum(spark, adaptive):
    rows = keyed(spark, "CASE WHEN id % 3 = 0 THEN 'hot' WHEN id % 50 = 1 THEN NULL ELSE concat('k', id % 2000) END")
    with setting(spark, "spark.sql.adaptive.enabled", adaptive):
        assert as_set(aggregate(rows, "key", Sum(), WORKERS)) == as_set(rows.groupBy("key").agg({"id": "sum"}))


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("even", "fold: every task folds its own rows"),
        ("few", "fold: rows were spread evenly first, because the input has 2 partitions for 4 workers"),
        ("cut evenly", "fold: every task folds its own rows"),
        ("behind a shuffle", "because it is not known how many rows each input partition has"),
        ("cached", "because it is not known how many rows each input partition has"),
        ("a joined", "because it is not known how many rows each input partition has"),
        ("filtered", "fold: every task folds its own rows"),
    ],
)
def test_rows_are_spread_first_where_the_input_is_uneven(spark, name, way):
    even = keyed(spark, "id % 7")
    inputs = {
        "even": lambda: even,
        "few": lambda: keyed(spark, "id % 7", partitions=2),
        "cut evenly": lambda: even.repartition(6),
        "behind a shuffle": lambda: even.repartition(6, "key"),
        "cached": lambda: keyed(spark, "id % 7 + 0").persist(),
        "a joined": lambda: even.join(spark.range(7).withColumnRenamed("id", "key"), "key"),
        "filtered": lambda: even.filter("id % 2 = 0"),
    }
    rows, watch = inputs[name](), Watch()
    result = aggregate(rows, "key", Sum(), WORKERS, watch=watch)
    assert as_set(result) == as_set(rows.groupBy("key").agg({"id": "sum"}))
    assert way in str(watch.way)
    assert watch.balance.rows == rows.count()
    assert watch.balance.imbalance < 0.01
    rows.unpersist()


def test_files_are_read_where_they_are_if_their_splits_are_even(spark, tmp_path):
    def way(folder, files, **options):
        for number, count in enumerate(files):
            rows = spark.range(0, count, 1, 1).selectExpr("id", "id % 7 AS key")
            rows.write.csv(str(tmp_path / folder), mode="append") if options else rows.write.parquet(
                str(tmp_path / folder / str(number))
            )
        reader = spark.read.schema("id long, key long")
        read = reader.csv(str(tmp_path / folder)) if options else reader.parquet(str(tmp_path / folder / "*"))
        watch = Watch()
        assert as_set(aggregate(read, "key", Sum(), WORKERS, watch=watch)) == as_set(
            read.groupBy("key").agg({"id": "sum"})
        )
        return str(watch.way)

    few = {"spark.sql.files.openCostInBytes": "0", "spark.sql.files.minPartitionNum": "4"}
    with ExitStack() as settings:
        for name, value in few.items():
            settings.enter_context(setting(spark, name, value))
        assert way("even", [1000] * 4) == "fold: every task folds its own rows"
        assert "the input files are cut into more splits than they may have row groups" in way("one", [4000])
        assert way("text", [20000], csv=True) == "fold: every task folds its own rows"  # text can be cut anywhere
    with setting(spark, "spark.sql.files.openCostInBytes", "4194304"):
        assert "partitions for 4 workers" in way("small", [10] * 3)


def test_the_input_is_computed_once(spark):
    computed = spark.sparkContext.accumulator(0)

    def count(batches):
        for batch in batches:
            computed.add(batch.num_rows)
            yield batch

    for partitions in (WORKERS, 1):
        before = computed.value
        rows = keyed(spark, "id % 7", partitions).mapInArrow(count, "id long, key long")
        aggregate(rows, "key", Sum(), WORKERS).collect()
        assert computed.value - before == 8000


def test_building_the_query_runs_no_job(spark):
    tracker = spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup("build", "build")
    try:
        aggregate(keyed(spark, "id % 7"), "key", Sum(), WORKERS)
        assert not tracker.getJobIdsForGroup("build")
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)


def test_options_of_a_scheme_need_one(spark):
    for options in ({"weight": "id"}, {"threshold": 0.1}):
        with pytest.raises(InputError, match=f"{next(iter(options))}= has no effect without a scheme"):
            aggregate(keyed(spark, "id % 7"), "key", Sum(), WORKERS, **options)
