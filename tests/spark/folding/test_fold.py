"""Folding where the rows are: the same result for any rows, sizes of batches and of tables, and one pass over them."""

import subprocess
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
from keyspread.operators import Count
from keyspread.spark import Watch, aggregate
from keyspread.spark._folding.operator_parts import in_batches

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


@pytest.mark.parametrize("large", [{"MOST_STATES": 50_000, "MOST_BYTES": 20_000}, {"MOST_STATES": 2}])
@pytest.mark.parametrize("kind", OWN)
def test_states_that_grow_are_sent_on(kind, large, monkeypatch):
    """A state may be as large as all rows of its key, and a few keys have all rows."""
    for module in (operator_states, column_states):
        for name, value in large.items():
            monkeypatch.setattr(module, name, value)
    keys = [f"k{number % 4}" for number in range(20_000)]
    sent = list(fold_where_rows_are(OWN[kind](), WORKERS, batches_of(keys, 400)))
    assert sum(sum(map(len, filter(None, one.column(4).to_pylist()))) for one in sent) == 20_000
    assert max(one.nbytes for one in sent) < 120_000
    assert len(sent) > 3


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


def test_no_rows_are_no_keys(spark):
    assert aggregate(keyed(spark, "id % 7").filter("id < 0"), "key", Sum(), WORKERS).collect() == []


KEYS = {
    "timestamp": "timestamp_seconds({0})",
    "struct": "struct({0} AS a, timestamp_seconds({0}) AS b)",
    "array": "array(timestamp_seconds({0}))",
    "structs": "array(struct(cast({0} AS string) AS s))",
    "string": "cast({0} AS string)",
    "binary": "cast(cast({0} AS string) AS binary)",
    "decimal": "cast({0} AS decimal(20, 3))",
    "NaN": "CASE WHEN id % 3 = 0 THEN double('NaN') WHEN id % 2 = 0 THEN -0.0D ELSE 0.0D END",
}


@pytest.mark.parametrize("key", KEYS)
def test_states_and_rows_of_a_task_have_the_same_types(spark, key):
    """Hot keys move as states, others as rows, in one stream of batches: in other zones, as large types."""
    settings = {
        "spark.sql.session.timeZone": "Europe/Berlin",
        "spark.sql.execution.arrow.useLargeVarTypes": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "700",
    }
    rows = keyed(spark, KEYS[key].format("CASE WHEN id % 3 = 0 THEN 0 WHEN id % 11 = 1 THEN NULL ELSE id % 2000 END"))
    with ExitStack() as stack:
        for name, value in settings.items():
            stack.enter_context(setting(spark, name, value))
        assert as_set(aggregate(rows, "key", Sum(), WORKERS)) == as_set(rows.groupBy("key").agg({"id": "sum"}))


@pytest.mark.parametrize("size", ["1", "7"])
def test_batches_may_be_tiny(spark, size):
    rows = keyed(spark, "CASE WHEN id % 3 = 0 THEN 0 ELSE id % 90 END").limit(600).repartition(WORKERS)
    with setting(spark, "spark.sql.execution.arrow.maxRecordsPerBatch", size):
        assert as_set(aggregate(rows, "key", Sum(), WORKERS)) == as_set(rows.groupBy("key").agg({"id": "sum"}))


def test_columns_that_do_not_come_back_from_python_are_refused(spark):
    rows = keyed(spark, "id % 7").selectExpr("*", "make_ym_interval(1, 2) AS months")
    with pytest.raises(InputError, match=r"column 'months' has type interval year to month, .*: drop it or cast it"):
        aggregate(rows, "key", Sum(), WORKERS)


class Wrong(Sum):
    """An update that fails."""

    def update(self, state, rows):
        return state["no"]


def test_a_failure_names_the_line_of_the_user_first(spark):
    line = Wrong.update.__code__.co_firstlineno + 1
    with pytest.raises(
        Exception, match=rf"test_fold.py, line {line}: Wrong.update failed for key \d: KeyError\('no'\)"
    ):
        aggregate(keyed(spark, "id % 7"), "key", Wrong(), WORKERS).collect()


@pytest.mark.parametrize("operator", [len, lambda rows: rows, pa.table({}), None, 3])
def test_what_is_no_operator_gets_the_skeleton_of_one(spark, operator):
    with pytest.raises(InputError, match=r"write class Mine\(keyspread.Operator\): .*def finish.*pass Mine\(\)"):
        aggregate(keyed(spark, "id % 7"), "key", operator, WORKERS)


def test_rows_must_be_a_frame_of_spark():
    with pytest.raises(InputError, match="df must be a DataFrame of Spark, got Table"):
        aggregate(pa.table({}), "key", Sum(), WORKERS)


def test_workers_have_a_default(spark):
    """It is that of the session; rows that are read by as many tasks as run at a time stay where they are."""
    slots, watch = spark.sparkContext.defaultParallelism, Watch()
    with setting(spark, "spark.sql.shuffle.partitions", str(slots + 3)):
        result = aggregate(keyed(spark, "id % 7", slots), "key", Sum(), watch=watch)
        assert str(watch.way) == "fold: every task folds its own rows"
        assert result.rdd.getNumPartitions() == slots + 3


@pytest.mark.parametrize("where", ["id < (SELECT max(id) FROM range(100))", "id IN (SELECT id FROM range(100))"])
def test_whether_rows_are_even_is_found_without_running_a_subquery(spark, where):
    tracker = spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup("splits", "splits")
    try:
        keyed(spark, "id % 7").createOrReplaceTempView("rows_of_splits")
        rows, watch = spark.sql(f"SELECT * FROM rows_of_splits WHERE {where}"), Watch()
        result = aggregate(rows, "key", Sum(), WORKERS, watch=watch)
        assert "it is not known" in str(watch.way)
        assert not tracker.getJobIdsForGroup("splits")
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert as_set(result) == as_set(rows.groupBy("key").agg({"id": "sum"}))


def test_a_worker_loads_what_an_operator_needs():
    """A Python worker starts for every job: it must not load the compiler of the kernels, or what builds queries."""
    long = pa.schema([("n", pa.int64())])
    own = ColumnStates(Count("n"), ["key"], ["key"], long, long)
    fold, finish = (
        in_batches(lambda batches: fold_where_rows_are(own, WORKERS, batches)),
        in_batches(lambda batches: finish_mixed(own, map(pa.Table.from_batches, [list(batches)]))),
    )
    code = """
import pickle, sys
import pyarrow as pa
fold, finish = pickle.load(sys.stdin.buffer)
ones = pa.array([1] * 20)
(result,) = finish(fold(iter([pa.record_batch([ones, ones, ones], names=["_0", "_1", "_2"])])))
unwanted = ("numba", "llvmlite", "keyspread.spark", "keyspread.kernels")
print(result.to_pylist(), [name for name in sys.modules if name.startswith(unwanted)])
"""
    packed = cloudpickle.dumps((fold, finish))
    ran = subprocess.run([sys.executable, "-c", code], input=packed, capture_output=True, check=True)
    assert ran.stdout.decode().strip() == "[{'_0': 1, '_1': 20}] []"


def test_rows_that_may_change_are_not_spread_where_that_is_not_protected(spark):
    """An even exchange would lose rows when a task runs again; rows that are folded in place move by key alone."""
    rows = spark.range(0, 8000, 1, 4).selectExpr("id", "id % 7 AS key", "id / 3 AS f")
    averages = rows.groupBy("id", "key").agg({"f": "avg"})
    with setting(spark, "spark.sql.shuffle.orderIndependentChecksum.enabled", "false"):
        result = aggregate(averages, "key", Sum(), WORKERS)
        assert "RoundRobin" not in result._jdf.queryExecution().toString()
        assert as_set(result) == as_set(averages.groupBy("key").agg({"id": "sum"}))
        with pytest.raises(InputError, match="may depend on the order of rows behind a shuffle"):
            aggregate(averages, "key", Sum(), WORKERS, watch=Watch())
