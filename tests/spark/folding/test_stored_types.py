"""Stored types: one form for every session, and no value is stored as something else. No Spark."""

import datetime
import math
import re
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from keyspread.folding.types import as_stored, stored_type, to_array, to_python

BERLIN, UTC = pa.timestamp("us", "Europe/Berlin"), pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        (BERLIN, UTC),
        (pa.timestamp("us"), pa.timestamp("us")),  # TIMESTAMP_NTZ has no time zone, and gets none
        (pa.timestamp("ns", "Europe/Berlin"), pa.timestamp("ns", "UTC")),
        (pa.large_string(), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.large_list(BERLIN), pa.list_(UTC)),
        (pa.list_(pa.large_string()), pa.list_(pa.string())),
        (pa.struct([("at", BERLIN), ("s", pa.large_string())]), pa.struct([("at", UTC), ("s", pa.string())])),
        (pa.map_(pa.large_string(), BERLIN), pa.map_(pa.string(), UTC)),
        (pa.int64(), pa.int64()),
        (pa.decimal128(10, 2), pa.decimal128(10, 2)),
    ],
)
def test_types_of_any_session_are_stored_in_one_form(kind, stored):
    assert stored_type(kind) == stored
    assert stored_type(stored) == stored


def test_a_stored_table_is_the_same_for_every_session():
    """Another time zone, large strings or not, a column that may be null or not: the same schema, the same values."""
    noon = datetime.datetime(2024, 1, 2, 12, tzinfo=datetime.UTC)
    stored = [
        as_stored(
            pa.table(
                [pa.array([noon], pa.timestamp("us", zone)), pa.array(["a"], text), pa.array([[noon]], pa.list_(UTC))],
                schema=pa.schema(
                    [
                        pa.field("at", pa.timestamp("us", zone), nullable),
                        pa.field("key", text, nullable),
                        pa.field("all", pa.list_(UTC), nullable),
                    ]
                ),
            )
        )
        for zone in ("UTC", "Europe/Berlin")
        for text in (pa.string(), pa.large_string())
        for nullable in (True, False)
    ]
    assert all(one.schema.equals(stored[0].schema) and one.equals(stored[0]) for one in stored)
    assert all(field.nullable for field in stored[0].schema)
    assert pa.concat_tables(stored).num_rows == len(stored)


PAIR = pa.struct([("a", pa.int64()), ("b", pa.string())])


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        ({"a": 1, "b": "x", "c": 2}, PAIR, "a struct must be a dict of a, b, got {'a': 1, 'b': 'x', 'c': 2}"),
        ({"a": 1}, PAIR, "a struct must be a dict of a, b, got {'a': 1}"),
        ([{"a": 1, "z": "x"}], pa.list_(PAIR), "a struct must be a dict of a, b, got {'a': 1, 'z': 'x'}"),
        ({"k": {}}, pa.map_(pa.string(), PAIR), "a struct must be a dict of a, b, got {}"),
        ("ab", pa.list_(pa.string()), "'ab' is not a list"),
        (Decimal("1.5"), pa.int64(), "Decimal('1.5') is not a whole number"),
        (Decimal("NaN"), pa.int64(), "Decimal('NaN') is not a whole number"),
        (math.inf, pa.int64(), "inf is not a whole number"),
        (pd.NaT, pa.timestamp("us"), "NaT is no time; use None"),
        (pd.NaT, pa.date32(), "NaT is no time; use None"),
        (1.5, pa.timestamp("us", "UTC"), "1.5 is not a whole number"),
        (1.5, pa.date32(), "1.5 is not a whole number"),
        ({1.5: "a"}, pa.map_(pa.int64(), pa.string()), "1.5 is not a whole number"),
        ({"a": 1.5}, pa.map_(pa.string(), pa.int64()), "1.5 is not a whole number"),
        ([("a", 1.5)], pa.map_(pa.string(), pa.int64()), "1.5 is not a whole number"),
        (b"ab", pa.list_(pa.int64()), "b'ab' is not a list"),
    ],
)
def test_a_value_that_arrow_would_cut_is_refused(value, kind, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        to_array([None, value], kind)


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (1e300, pa.float32(), "1e\\+300 is too large for a float"),
        ([10**300], pa.list_(pa.float32()), "is too large for a float"),
        (datetime.datetime(2024, 1, 2, 3), pa.date32(), "is a time, not a date"),
        (datetime.date(2024, 1, 2), pa.timestamp("us"), "is a date, not a time"),
        (datetime.datetime(2024, 1, 2), pa.timestamp("us", "UTC"), "must have a time zone"),
        (datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC), pa.timestamp("us"), "must have no time zone"),
        (pd.Timestamp(1, unit="ns"), pa.timestamp("us"), "has nanoseconds"),
    ],
)
def test_a_number_or_time_that_arrow_would_change_is_refused(value, kind, message):
    with pytest.raises(ValueError, match=message):
        to_array([None, value], kind)


def test_values_of_the_declared_type_are_stored_as_they_are():
    day = datetime.datetime(2024, 1, 2, 3, tzinfo=datetime.UTC)
    for value, kind in (
        ({"a": None, "b": "x"}, PAIR),
        ([{"a": 1, "b": None}, None], pa.list_(PAIR)),
        (day, pa.timestamp("us", "UTC")),
        (day.date(), pa.date32()),
        (datetime.timedelta(hours=1), pa.duration("us")),
        ({"k": [1]}, pa.map_(pa.string(), pa.list_(pa.int64()))),
    ):
        assert to_python(to_array([value, None], kind)) == [value, None]
    assert to_array([Decimal("2"), 3.0, np.int8(4)], pa.int64()).to_pylist() == [2, 3, 4]
