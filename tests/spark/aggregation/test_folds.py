"""Folds on columns of partial states, compared with plain Python that works value by value."""

import math
import statistics
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyspread.spark.aggregation import folds
from keyspread.spark.aggregation.folds import FoldError, Groups, fold_table, groups_of

KEYS = st.sampled_from(["a", "b", None, "c"])
INTS = st.none() | st.integers(-(10**6), 10**6)
FLOATS = st.none() | st.floats(width=32)


def rows(values):
    return st.lists(st.tuples(KEYS, values), min_size=1, max_size=40)


def by_key(pairs):
    found = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def folded(pairs, fold, kind, cut=None):
    """Fold all rows at once, or fold two parts and then their results."""
    table = pa.table(
        {"k": pa.array([key for key, _ in pairs], pa.string()), "v": pa.array([v for _, v in pairs], kind)}
    )
    if cut is not None:
        halves = [fold_table(part, 1, [(1, fold)]) for part in (table.slice(0, cut), table.slice(cut))]
        table = pa.concat_tables(halves)
    result = fold_table(table, 1, [(1, fold)])
    assert result.schema == table.schema
    return dict(zip(result["k"].to_pylist(), result["v"].to_pylist(), strict=True))


def not_null(values):
    return [value for value in values if value is not None]


def nan_last(value):
    return math.inf if math.isnan(value) else value, math.isnan(value)


SIMPLE = {
    "sum": (folds.add, lambda vs: sum(vs)),
    "max": (folds.greatest, max),
    "min": (folds.least, min),
    "and": (folds.bits(np.bitwise_and), lambda vs: int(np.bitwise_and.reduce(vs))),
    "or": (folds.bits(np.bitwise_or), lambda vs: int(np.bitwise_or.reduce(vs))),
    "xor": (folds.bits(np.bitwise_xor), lambda vs: int(np.bitwise_xor.reduce(vs))),
}


@pytest.mark.parametrize("name", SIMPLE)
@given(pairs=rows(INTS), cut=st.integers(0, 40))
def test_whole_numbers(name, pairs, cut):
    fold, oracle = SIMPLE[name]
    expected = {key: oracle(not_null(vs)) if not_null(vs) else None for key, vs in by_key(pairs).items()}
    assert folded(pairs, fold, pa.int64()) == folded(pairs, fold, pa.int64(), cut) == expected


@pytest.mark.parametrize(("fold", "best"), [(folds.greatest, max), (folds.least, min)])
@given(pairs=rows(FLOATS), cut=st.integers(0, 40))
def test_nan_is_larger_than_all_others(fold, best, pairs, cut):
    found = folded(pairs, fold, pa.float64(), cut)
    for key, values in by_key(pairs).items():
        expected = best(not_null(values), key=nan_last, default=None)
        assert found[key] == expected or (math.isnan(found[key]) and math.isnan(expected))


@given(pairs=rows(st.none() | st.booleans()), cut=st.integers(0, 40))
def test_all_true_and_any_true(pairs, cut):
    for fold, oracle in ((folds.all_true, all), (folds.any_true, any)):
        expected = {key: oracle(not_null(vs)) if not_null(vs) else None for key, vs in by_key(pairs).items()}
        assert folded(pairs, fold, pa.bool_(), cut) == expected


@given(pairs=rows(st.lists(st.integers(0, 5), max_size=4, unique=True)), cut=st.integers(0, 40))
def test_lists_and_sets(pairs, cut):
    kind = pa.list_(pa.int64())
    together = {key: [one for value in values for one in value] for key, values in by_key(pairs).items()}
    assert folded(pairs, folds.lists, kind, cut) == together
    found = folded(pairs, folds.sets, kind, cut)
    assert {key: sorted(values) for key, values in found.items()} == {k: sorted(set(vs)) for k, vs in together.items()}


@given(pairs=rows(st.lists(st.fixed_dictionaries({"x": st.integers(0, 2)}), max_size=3, unique_by=str)))
def test_sets_of_structs(pairs):
    found = folded(pairs, folds.sets, pa.list_(pa.struct([("x", pa.int64())])))
    for key, values in by_key(pairs).items():
        assert {one["x"] for one in found[key]} == {one["x"] for value in values for one in value}
        assert len({one["x"] for one in found[key]}) == len(found[key])


@given(pairs=rows(st.floats(-1e3, 1e3)), cut=st.integers(0, 40))
def test_moments(pairs, cut):
    kind = pa.struct([("n", pa.float64()), ("mean", pa.float64()), ("m2", pa.float64())])
    ones = [(key, {"n": 1.0, "mean": value, "m2": 0.0}) for key, value in pairs]
    found = folded(ones, folds.moments, kind, cut)
    for key, values in by_key(pairs).items():
        assert found[key]["n"] == len(values)
        assert found[key]["mean"] == pytest.approx(statistics.fmean(values), abs=1e-9)
        assert found[key]["m2"] == pytest.approx(statistics.pvariance(values) * len(values), abs=1e-6)


@given(pairs=rows(st.tuples(st.text(max_size=2), INTS)))
def test_value_at_the_largest_and_smallest_order(pairs):
    table = pa.table(
        {
            "k": pa.array([key for key, _ in pairs], pa.string()),
            "v": pa.array([value for _, (value, _) in pairs]),
            "o": pa.array([order for _, (_, order) in pairs], pa.int64()),
        }
    )
    for fold, best in ((folds.value_at_greatest, max), (folds.value_at_least, min)):
        found = fold_table(table, 1, [(2, fold)]).to_pylist()
        for row in found:
            own = [pair for key, pair in pairs if key == row["k"] and pair[1] is not None]
            if len([key for key, _ in pairs if key == row["k"]]) == 1:
                continue  # a single row stays as it is
            expected = best((order for _, order in own), default=None)
            assert row["o"] == expected
            assert row["v"] in [value for value, order in own if order == expected] or (not own and row["v"] is None)


@given(st.lists(st.tuples(KEYS, st.integers(0, 2), FLOATS), min_size=1, max_size=30))
def test_groups_are_equal_rows_in_order_of_appearance(pairs):
    columns = [
        pa.array([one[0] for one in pairs], pa.string()),
        pa.array([one[1] for one in pairs]),
        pa.array([one[2] for one in pairs], pa.float64()),
    ]
    # -0.0 and 0.0 differ here: key columns are normalised before they are grouped.
    values = [tuple("nan" if isinstance(v, float) and v != v else str(v) for v in one) for one in pairs]
    seen = {}
    expected = [seen.setdefault(value, len(seen)) for value in values]
    groups = groups_of(columns)
    assert groups.of_row.tolist() == expected
    assert [values[row] for row in groups.first] == list(seen)


def test_decimals_texts_and_bytes():
    key = pa.array(["a", "a", "b"])
    cases = [
        (
            pa.array([Decimal("1.10"), Decimal("2.20"), None], pa.decimal128(20, 2)),
            folds.add,
            Decimal("3.30"),
            None,
        ),
        (pa.array(["x", "y", None]), folds.greatest, "y", None),
        (pa.array([b"x", b"y", b"z"]), folds.least, b"x", b"z"),
        (pa.array([1, 2, 3], pa.timestamp("us", tz="UTC")), folds.greatest, 2, 3),
    ]
    for values, fold, first, second in cases:
        table = fold_table(pa.table({"k": key, "v": values}), 1, [(1, fold)])
        assert table["v"].type == values.type
        assert table["v"].to_pylist() == pa.array([first, second], values.type).to_pylist()


def test_an_empty_table_stays_empty():
    empty = pa.table({"k": pa.array([], pa.string()), "v": pa.array([], pa.int64())})
    assert fold_table(empty, 1, [(1, folds.add)]).num_rows == 0
    assert groups_of([pa.array([], pa.string())]).count == 0


def test_a_sum_that_overflows_is_refused():
    most = 2**63 - 1
    table = pa.table({"k": ["a", "a", "b"], "v": [most, 1, 5]})
    with pytest.raises(FoldError, match=r"a sum overflows int64: cast the column to decimal\(38,0\)"):
        fold_table(table, 1, [(1, folds.add)])
    fine = pa.table({"k": ["a", "a", "b", "b"], "v": [most, -1, 5, None]})
    assert fold_table(fine, 1, [(1, folds.add)])["v"].to_pylist() == [most - 1, 5]


def test_groups_count():
    assert Groups(np.array([0, 0]), np.array([0])).count == 1


def test_a_sum_may_be_the_least_number_of_its_type():
    least = -(2**63)
    table = pa.table({"k": ["a", "a", "b"], "v": [least + 1, -1, 5]})
    assert fold_table(table, 1, [(1, folds.add)])["v"].to_pylist() == [least, 5]
    with pytest.raises(FoldError, match="a sum overflows int64"):
        fold_table(pa.table({"k": ["a", "a"], "v": [least, -1]}), 1, [(1, folds.add)])
