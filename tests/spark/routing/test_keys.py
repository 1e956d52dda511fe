"""hash_keys against Spark itself, for every type it takes."""

import datetime
import math

import numpy as np
import pyarrow as pa
import pytest

from keyspread.errors import InputError
from keyspread.hashing import hash_keys

F = pytest.importorskip("pyspark.sql.functions")

UTC = datetime.UTC
INSTANTS = [
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
    datetime.datetime(2024, 2, 29, 12, 30, 15, 123456, UTC),
]
COLUMNS = {
    "string": ["", "a", "ü€😀", "x" * 31, "x" * 32, "y" * 100, "tab\there", "a\x00b", None],
    "binary": [b"", b"\x00", b"\xff" * 40, None],
    "long": [0, 1, -1, 2**63 - 1, -(2**63), None],
    "boolean": [True, False, None],
    "double": [0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, 5e-324, None],
    "date": [datetime.date(1970, 1, 1), datetime.date(1582, 10, 4), datetime.date(9999, 12, 31), None],
    "timestamp": [*INSTANTS, None],
    "timestamp_ntz": [*(instant.replace(tzinfo=None) for instant in INSTANTS), None],
    "void": [None, None],
}
ARRAYS = {
    "tinyint": np.array([0, -128, 127], np.int8),
    "smallint": np.array([0, -32768, 32767], np.int16),
    "int": np.array([0, -(2**31), 2**31 - 1], np.int32),
    "bigint": np.array([0, -(2**63), 2**63 - 1], np.int64),
    "float": np.array([0.0, -0.0, 1.5, math.nan, math.inf, 1e-45], np.float32),
    "double": np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64),
}


def of_spark(frame):
    """Hash the only column in Spark, in order."""
    return [row[0] for row in frame.select(F.xxhash64(frame.columns[0])).collect()]


def test_python_values(spark):
    for kind, keys in COLUMNS.items():
        frame = spark.createDataFrame([(key,) for key in keys], f"key {kind}")
        assert hash_keys(keys).tolist() == of_spark(frame), kind


def test_arrays(spark):
    for kind, keys in ARRAYS.items():
        frame = spark.createDataFrame(pa.table({"key": keys}))
        assert frame.dtypes == [("key", kind)]
        expected = of_spark(frame)
        assert hash_keys(keys).tolist() == expected, kind
        assert hash_keys(pa.array(keys)).tolist() == expected, kind


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", None, "b", "a"]).dictionary_encode(),
        pa.array(["a", None], pa.large_string()),
        pa.array([b"ab", None], pa.binary(2)),
        pa.array([b"ab", None], pa.large_binary()),
        pa.array([-1500, -1, 1500, None], pa.timestamp("ns", "UTC")),
        pa.array([-3, 3, None], pa.timestamp("s", "UTC")),
        pa.array([1, None], pa.int32()),
    ],
    ids=lambda column: str(column.type),
)
def test_arrow_columns(spark, column):
    assert hash_keys(column).tolist() == of_spark(spark.createDataFrame(pa.table({"key": column})))


@pytest.mark.parametrize(
    ("dtype", "kind"), [("uint8", "smallint"), ("uint16", "int"), ("uint32", "bigint"), ("int64", "bigint")]
)
def test_unsigned_integers_as_spark_reads_them_from_parquet(spark, tmp_path, dtype, kind):
    import pyarrow.parquet

    keys = np.array([0, 1, np.iinfo(dtype).max], dtype)
    pyarrow.parquet.write_table(pa.table({"key": keys}), tmp_path / "keys.parquet")
    frame = spark.read.parquet(str(tmp_path / "keys.parquet"))
    assert frame.dtypes == [("key", kind)]
    assert hash_keys(keys).tolist() == of_spark(frame)


def test_pandas(spark):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(
        {
            "text": ["a", None, "b"],
            "number": [1.5, math.nan, -0.0],
            "small": np.array([1, 2, 3], np.int32),
            "kind": pd.Series(["x", "y", "x"], dtype="category").astype(str),
        }
    )
    frame = spark.createDataFrame(table)
    for name in table:
        assert hash_keys(table[name]).tolist() == of_spark(frame.select(name)), name


@pytest.mark.connect
def test_an_expression_that_changes_between_two_looks_is_refused(spark):
    from keyspread.spark import spread

    rows = spark.range(10).selectExpr("id", "timestamp_seconds(id) AS t")
    for key in (F.rand(), F.spark_partition_id(), F.input_file_name(), F.monotonically_increasing_id() % 3):
        with pytest.raises(InputError, match="has another value each time it is computed"):
            spread(rows, key, 3)
    for key in (F.window("t", "10 seconds", "5 seconds"), F.window("t", "10 seconds")):
        with pytest.raises(InputError, match="is a window, not a key: use window= and slide= of aggregate"):
            spread(rows, ["id", key], 3)
