"""States of an operator as columns: written and read as they are, or refused with step, key and field. No Spark."""

import pickle
import threading

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from keyspread import Operator
from keyspread.folding.operator_states import OperatorStates
from keyspread.folding.states import OperatorError


class Count(Operator):
    """A count of rows, and the tags of the last one; the state is not typed."""

    schema = "n bigint"
    batches = "arrow"

    def zero(self):
        return 0

    def update(self, state, rows):
        return state + rows.num_rows

    def merge(self, state, other):
        return state + other

    def finish(self, state):
        return {"n": state}


def wrong_state(step):
    class Wrong(Count):
        state = "n bigint, tags array<bigint>"

        def zero(self):
            return {"n": 0, "tags": None}

        def update(self, state, rows):
            n = state["n"] + rows.num_rows
            found = {
                "fields": {"n": n},
                "tuple": (n, None),
                "type": {"n": "many", "tags": None},
                "cut": {"n": n + 0.5, "tags": None},
            }
            return found.get(step, {"n": n, "tags": None})

        def merge(self, state, other):
            return {"n": b"x" if step == "merge" else state["n"] + other["n"], "tags": None}

        def finish(self, state):
            return {"n": 1.5 if step == "finish" else state["n"]}

    return Wrong()


WRONG_STATES = {
    "fields": r"Wrong.update must return a dict of n, tags \(its state\), for key 'hot' it returned \{'n': 4\}",
    "tuple": r"Wrong.update must return a dict of n, tags \(its state\), for key 'hot' it returned \(4, None\)",
    "type": r"Wrong.update returned 'many' as n for key 'hot', which is not of type int64: ",
    "cut": r"Wrong.update returned 4.5 as n for key 'hot', which is not of type int64: 4.5 is not a whole number",
    "merge": r"Wrong.merge returned b'x' as n for key 'hot', which is not of type int64",
    "finish": r"Wrong.finish returned 1.5 as n for key 'hot', which is not of type int64: 1.5 is not a whole number",
}


@pytest.mark.parametrize("step", WRONG_STATES)
def test_a_state_of_other_fields_or_types_names_step_key_and_field(step):
    fields = pa.schema([("n", pa.int64()), ("tags", pa.list_(pa.int64()))])
    states = OperatorStates(wrong_state(step), 1, ["key"], fields, pa.schema([("n", pa.int64())]))
    batch = pa.RecordBatch.from_pydict({"_0": [7] * 4, "_1": ["hot"] * 4, "key": ["hot"] * 4})
    with pytest.raises(OperatorError, match=WRONG_STATES[step]) as caught:
        states.finish(states.fold(pa.concat_tables(table for _ in range(2) for table in states.make(iter([batch])))))
    assert "\n" not in str(caught.value)


def test_states_of_a_class_of_the_users_script_are_pickled_by_value_and_others_are_refused():
    class Seen:
        def __init__(self, rows):
            self.rows = rows

    class Last(Count):
        def __init__(self, make):
            self.make = make

        def zero(self):
            return None

        def update(self, state, rows):
            return self.make(rows.num_rows)

        def merge(self, state, other):
            return Seen(state.rows + other.rows)

        def finish(self, state):
            return {"n": state.rows}

    def found(make):
        states = OperatorStates(Last(make), 1, ["key"], None, pa.schema([("n", pa.int64())]))
        batch = pa.RecordBatch.from_pydict({"_0": [7] * 4, "_1": ["hot"] * 4, "key": ["hot"] * 4})
        made = pa.concat_tables(table for _ in range(2) for table in states.make(iter([batch])))
        return states.finish(states.fold(made)).to_pylist()

    assert found(Seen) == [{"_0": "hot", "_1": 8}]
    with pytest.raises(OperatorError, match=r"Last: the state of key 'hot' cannot be pickled .*: use plain values, or"):
        found(lambda rows: threading.Lock())


@pytest.mark.parametrize(
    ("kind", "value", "null"),
    [
        (pa.int64(), 2**53 + 1, None),
        (pa.bool_(), True, None),
        (pa.list_(pa.int64()), [2**53 + 1], [None]),
        (pa.struct([("n", pa.int64())]), {"n": 2**53 + 1}, {"n": None}),
        (pa.map_(pa.string(), pa.int64()), [("n", 2**53 + 1)], [("n", None)]),
    ],
    ids=str,
)
def test_a_null_of_one_key_does_not_change_the_rows_of_another(kind, value, null):
    class Seen(Count):
        batches = "pandas"

        def zero(self):
            return ""

        def update(self, state, rows):
            return f"{list(rows.index)} {rows['v'].dtype} {rows['v'].tolist()}"

    def seen(keys, values):
        columns = [pa.array(range(len(keys)), pa.int64()), pa.array(keys), pa.array(keys), pa.array(values, kind)]
        batch = pa.record_batch(columns, names=["_0", "_1", "_2", "_3"])
        states = OperatorStates(Seen(), 1, ["key", "v"], None, pa.schema([("n", pa.int64())]))
        (table,) = states.make(iter([batch]))
        return dict(zip(table["_1"].to_pylist(), map(pickle.loads, table["_2"].to_pylist()), strict=True))

    alone = seen(["a", "a"], [value, value])
    assert seen(["a", "b", "a"], [value, null, value])["a"] == alone["a"]
