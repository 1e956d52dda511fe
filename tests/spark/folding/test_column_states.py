"""Operators by column: the result equals plain Python, however rows are split and states merged; no engine."""

import math
from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from keyspread import ColumnOperator, hash_keys
from keyspread.folding.column_states import ColumnStates
from keyspread.folding.states import OperatorError
from keyspread.folding.types import is_stored_as

NAN = math.nan


class Spread(ColumnOperator):
    """Count of rows, sum and least value that is not null, with pyarrow's own group_by."""

    state = "n bigint, total bigint, least bigint"
    schema = "n bigint, total bigint, least bigint, double_total double"

    def partial(self, rows, key):
        calls = [([], "count_all"), ("value", "sum"), ("value", "min")]
        return rows.group_by(key).aggregate(calls).rename_columns([*key, "n", "total", "least"])

    def merge(self, states, key):
        calls = [("n", "sum"), ("total", "sum"), ("least", "min")]
        return states.group_by(key).aggregate(calls).rename_columns([*key, "n", "total", "least"])

    def finish(self, states, key):
        return states.append_column("double_total", pc.multiply(states["total"], 2.0))


class Lazy(Spread):
    """The same; partial returns a state per row, as a batch of records, and merge other columns first."""

    def partial(self, rows, key):
        value, ones = rows["value"], pa.array([1] * rows.num_rows, pa.int32())
        table = pa.table([value, ones, *rows.select(key).columns, value], names=["least", "n", *key, "total"])
        return table.combine_chunks().to_batches()[0]

    def merge(self, states, key):
        found = super().merge(states, key)
        return found.select(["least", *reversed(key), "total", "n"]).take(list(reversed(range(found.num_rows))))


STATE = pa.schema([("n", pa.int64()), ("total", pa.int64()), ("least", pa.int64())])
RESULT = STATE.append(pa.field("double_total", pa.float64()))
KINDS = [pa.string(), pa.float64()]
ROWS = st.lists(
    st.tuples(
        st.sampled_from([None, "", "a", "hot"]),
        st.sampled_from([None, 0.0, 1.5, NAN]),
        st.none() | st.integers(-9, 9),
    ),
    max_size=20,
)


def states_of(operator):
    return ColumnStates(operator, ["a", "b"], ["value", "a"], STATE, RESULT)


def batch_of(rows):
    """Return rows as Spark hands them over: the hash, the key, all columns; one of them has the name of a key."""
    hashes = pa.array([int(hash_keys([repr((a, b))])[0]) for a, b, _ in rows], pa.int64())
    keys = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(KINDS)]
    others = [pa.array([row[2] for row in rows], pa.int64()), pa.array(["shadowed"] * len(rows))]
    return pa.RecordBatch.from_arrays([hashes, *keys, *others], names=[f"_{at}" for at in range(5)])


def plain(rows):
    """Return the result in plain Python: repr of the key -> (n, total, least, double total)."""
    groups = {}
    for a, b, value in rows:
        groups.setdefault(repr((a, b)), []).append(value)
    found = {}
    for key, values in groups.items():
        known = [value for value in values if value is not None]
        total = sum(known) if known else None
        found[key] = (len(values), total, min(known, default=None), None if total is None else 2.0 * total)
    return found


@pytest.mark.parametrize("operator", [Spread, Lazy])
@given(data=st.data(), workers=st.lists(ROWS, max_size=4))
@settings(deadline=None)
def test_equal_to_plain_python_however_rows_are_split_and_states_merged(operator, data, workers):
    states, tables = states_of(operator()), []
    for rows in workers:
        cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))  # equal cuts: empty batches
        batches = [batch_of(rows[begin:end]) for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
        made = list(states.make(iter(batches)))
        assert all(Counter(map(repr, keys(table))).most_common(1)[0][1] == 1 for table in made)
        tables += made
    while len(tables) > 1:  # merged in any order, two or three at a time
        tables = data.draw(st.permutations(tables))
        many = data.draw(st.integers(2, 3))
        tables = [states.fold(pa.concat_tables(tables[:many])), *tables[many:]]
    found = [row for table in tables for row in states.finish(table).to_pylist()]
    everything = [row for rows in workers for row in rows]
    assert {repr((row["_0"], row["_1"])): tuple(row.values())[2:] for row in found} == plain(everything)
    assert len(found) == len(plain(everything))
    # The hash of a state is that of its key.
    hashes = {repr((a, b)): int(hash_keys([repr((a, b))])[0]) for a, b, _ in everything}
    for table in tables:
        assert [hashes[repr(key)] for key in keys(table)] == table[0].to_pylist()


def keys(table):
    return list(zip(*(column.to_pylist() for column in table.columns[1:3]), strict=True))


def test_fold_keeps_the_order_of_appearance_and_leaves_single_states_alone():
    states = states_of(Lazy())
    parts = [
        next(states.make([batch_of(rows)]))
        for rows in ([("b", 1.5, 1), ("a", 0.0, 2)], [("c", None, 3), ("a", 0.0, 4)])
    ]
    folded = states.fold(pa.concat_tables(parts))
    assert [(key, total) for (key, _), total in zip(keys(folded), folded["_4"].to_pylist(), strict=True)] == [
        ("b", 1),
        ("a", 6),
        ("c", 3),
    ]
    nothing = folded.slice(0, 0)
    assert states.finish(nothing).schema.types == [*KINDS, *RESULT.types]
    assert list(states.make(iter([]))) == list(states.make(iter([batch_of([])]))) == []


@pytest.mark.skipif(
    not hasattr(pytest.importorskip("pandas").DataFrame, "__arrow_c_stream__"),
    reason="this pandas does not speak Arrow",
)
def test_a_result_may_be_of_another_library():
    """Anything with Arrow's own protocol; pandas stands for all."""

    class Pandas(Spread):
        def partial(self, rows, key):
            frame = rows.to_pandas().groupby(key)["value"].agg(["size", "sum", "min"])
            return frame.set_axis(["n", "total", "least"], axis=1).reset_index()

    states = states_of(Pandas())
    (made,) = states.make([batch_of([("a", 1.5, 1), ("a", 1.5, 3), ("b", 0.0, 5)])])
    assert [tuple(row.values())[1:] for row in made.to_pylist()] == [("a", 1.5, 2, 4, 1), ("b", 0.0, 1, 5, 5)]


def wrong(step):
    """Return an operator with one mistake."""

    class Wrong(Spread):
        def partial(self, rows, key):
            made = super().partial(rows, key)
            if step == "raises":
                raise KeyError("amount\nis missing")
            if step == "foreign":
                return made.set_column(0, "a", pa.array(["x"] * made.num_rows))
            changed = {
                "no table": {"n": 1},
                "nothing": None,
                "names": made.rename_columns([*key, "n", "value_sum", "least"]),
                "cut": made.set_column(3, "total", pc.add(made["total"], 0.5)),
                "key type": made.set_column(0, "a", pa.array([1] * made.num_rows)),
            }
            return changed.get(step, made)

        def merge(self, states, key):
            merged = super().merge(states, key)
            if step == "unmerged":
                return states
            if step == "dropped":
                return merged.slice(0, 0)
            return merged

        def finish(self, states, key):
            done = super().finish(states, key)
            if step == "finish rows":
                return done.slice(1)
            return states if step == "finish names" else done

    return Wrong()


LISTED = r"the columns a, b, n, total, least \(the key and its state\)"
MISTAKES = {
    "raises": r"Wrong.partial failed for 2 rows: KeyError\('amount\\nis missing'\)$",
    "no table": rf"Wrong.partial must return a table with {LISTED}, got dict$",
    "nothing": rf"Wrong.partial must return a table with {LISTED}, got NoneType$",
    "names": rf"Wrong.partial must return {LISTED}, but 'total' is missing, 'value_sum' is not one of them: rename or",
    "cut": "Wrong.partial returned the column 'total' as double, but its state says int64: cast it, or declare another",
    "key type": "Wrong.partial returned the column 'a' as int64, but the key is string: cast it, or declare",
    "foreign": r"Wrong.partial returned key \('x', 1.5\), which is none of the keys that it got$",
    "unmerged": r"Wrong.merge must return one row for each key that it got, but returned 2 for key \('hot', 1.5\)$",
    "dropped": r"Wrong.merge must return one row for each key that it got, but returned 0 for key \('hot', 1.5\)$",
    "finish rows": r"Wrong.finish must return one row for each key that it got, but returned 0 for key \('hot', 1.5\)$",
    "finish names": r"Wrong.finish must return the columns .* \(the key and its schema\), but 'double_total' is",
}


@pytest.mark.parametrize("step", MISTAKES)
def test_a_mistake_names_the_operator_the_step_and_the_column(step):
    states, batch = states_of(wrong(step)), batch_of([("hot", 1.5, 1), ("hot", 1.5, None)])
    with pytest.raises(OperatorError, match=MISTAKES[step]) as caught:
        states.finish(states.fold(pa.concat_tables(table for _ in range(2) for table in states.make([batch]))))
    assert "\n" not in str(caught.value)


LONG, TEXT, US = pa.int64(), pa.string(), pa.timestamp("us", "UTC")
STORED_AS = [
    (pa.int32(), LONG),
    (LONG, pa.int32()),
    (LONG, pa.float64()),
    (pa.float32(), pa.float64()),
    (pa.large_string(), TEXT),
    *([(pa.string_view(), TEXT)] if hasattr(pa, "string_view") else []),  # from pyarrow 16 on
    (pa.dictionary(pa.int32(), TEXT), TEXT),
    (pa.large_list(pa.int32()), pa.list_(LONG)),
    (pa.struct([("a", pa.int32())]), pa.struct([("a", LONG)])),
    (pa.map_(TEXT, pa.int32()), pa.map_(TEXT, LONG)),
    (pa.timestamp("ns", "Europe/Berlin"), US),
    (pa.decimal128(38, 2), pa.decimal128(10, 2)),
    (pa.date64(), pa.date32()),
    (pa.null(), TEXT),
]
NOT_STORED_AS = [
    (pa.float64(), LONG),
    (pa.float64(), pa.float32()),
    (TEXT, LONG),
    (LONG, TEXT),
    (pa.bool_(), LONG),
    (pa.list_(TEXT), pa.list_(LONG)),
    (pa.list_(LONG), LONG),
    (pa.struct([("a", LONG)]), pa.struct([("b", LONG)])),
    (pa.map_(TEXT, LONG), pa.list_(pa.struct([("key", TEXT), ("value", LONG)]))),
    (pa.timestamp("us"), US),
    (LONG, US),
]


def test_only_types_that_mean_the_same_are_cast():
    assert [is_stored_as(*pair) for pair in STORED_AS] == [True] * len(STORED_AS)
    assert [is_stored_as(*pair) for pair in NOT_STORED_AS] == [False] * len(NOT_STORED_AS)
