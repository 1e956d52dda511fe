"""Keys that Python and Spark compare alike, and those that are refused. Only types: no Spark is started.

`test_operator_parts.py` compares each type that is accepted with Spark's own groupBy.
"""

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import types as T

from keyspread import InputError
from keyspread.spark._folding.operator_parts import check_key_types

MONTHS = T.YearMonthIntervalType()
REFUSED = {
    "months": (MONTHS, "interval year to month"),
    "map": (T.MapType(T.StringType(), T.LongType()), "map<string,bigint>"),
    "in an array": (T.ArrayType(MONTHS), "interval year to month"),
    "first in a struct": (T.StructType([T.StructField("a", MONTHS), T.StructField("b", T.LongType())]), "interval"),
    "last in a struct": (T.StructType([T.StructField("a", T.LongType()), T.StructField("b", MONTHS)]), "interval"),
}


def fields(*kinds):
    return [T.StructField(f"k{number}", kind) for number, kind in enumerate(kinds)]


def test_types_that_are_compared_alike():
    check_key_types(["k0", "k1", "k2"], fields(T.StringType(), T.DoubleType(), T.ArrayType(T.TimestampNTZType())))
    check_key_types(["k0"], fields(T.StructType([T.StructField("a", T.BinaryType())])))


@pytest.mark.parametrize("case", REFUSED)
def test_other_types_are_refused_wherever_they_are(case):
    kind, named = REFUSED[case]
    with pytest.raises(InputError, match=rf"key 'k1' has type .* compares {named}.* in another way.*: cast it"):
        check_key_types(["k0", "k1"], fields(T.LongType(), kind))


@pytest.mark.skipif(not hasattr(T.StringType(), "collation"), reason="this Spark has no collations")
def test_a_collated_text_is_refused_with_its_own_remedy():
    kind = T.StringType("UTF8_LCASE")
    with pytest.raises(InputError, match=r"pass a key without it, such as F.lower\('k0'\).cast"):
        check_key_types(["k0"], fields(kind))
    check_key_types(["k0"], fields(T.StringType("UTF8_BINARY")))
