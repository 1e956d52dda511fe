"""The values of Kafka messages: the fields of JSON objects become columns; malformed values are kept, never lost."""

from collections.abc import Mapping
from typing import Any

from pyspark.errors import ParseException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from keyspread.errors import InputError
from keyspread.spark.capabilities import schema_of_ddl
from keyspread.spark.failures import why
from keyspread.spark.routing.keys import free_name, quoted

MALFORMED = "_malformed"
"""The column that `parsed` adds: the text of a malformed value, null in all other rows."""


def parsed(
    df: DataFrame,
    schema: StructType | str,
    *,
    value: str = "value",
    observe: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Return exactly the same rows, with the fields of their JSON values as columns instead of the value.

    A value that is not one JSON object of this schema is malformed: its text is in the column `_malformed` and its
    fields are null; in all other rows `_malformed` is null. A message without a value (a tombstone) is not malformed.
    `schema` may be SQL, as in "user STRING, spent DOUBLE". `observe` is the name under which the progress of a query
    counts rows and malformed rows (`observedMetrics`). `options` are those of Spark's JSON reader.

    `split` separates the malformed rows.

    Args:
        df: Messages as `kafka_source` returns them.
        schema: The fields of the JSON values.
        value: The column with the JSON text.
        observe: The name under which the progress of a query counts rows.
        options: Those of Spark's JSON reader.

    Returns:
        The same rows, with the fields as columns.

    Raises:
        InputError: An argument is wrong; the message names it, the value and the remedy.

    >>> from keyspread.spark import session
    >>> rows = session().createDataFrame([('{"user": "anna"}',), ("{",)], "value string")
    >>> [(row["user"], row["_malformed"]) for row in parsed(rows, "user STRING").collect()]
    [('anna', None), (None, '{')]
    """
    if value not in df.columns:
        raise InputError(f"there is no column {value!r} to parse: the columns are {', '.join(df.columns)}")
    fields = _fields(schema)
    kept = [name for name in df.columns if name != value]
    for name in fields.names:
        if name.lower() in {one.lower() for one in [*kept, MALFORMED]}:
            raise InputError(
                f"the schema has a field {name!r}, and the rows have a column of that name: rename the column first"
            )
    text = F.col(quoted(value)).cast("string")
    # Spark reads the first JSON value of a text and ignores the rest, so a second object would be lost. Wrapped,
    # '{"a":1} {"a":2}' becomes '{"v":[{"a":1} {"a":2}]}', which is not JSON, and '{"a":1},{"a":2}' an array of two.
    wrapped = F.concat(F.lit('{"v":['), text, F.lit("]}"))
    read = StructType([StructField("v", ArrayType(fields)), StructField("bad", StringType())])
    settings = {name: str(given) for name, given in (options or {}).items()}
    settings |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "bad"}
    json_ = free_name(df, "json")
    found, bad = F.col(f"{json_}.v"), F.col(f"{json_}.bad")
    first = F.get(found, F.lit(0))
    good = F.coalesce(bad.isNull() & (F.size(found) == 1) & first.isNotNull(), F.lit(False))
    rows = df.withColumn(json_, F.from_json(wrapped, read, settings)).select(
        *(F.col(quoted(name)) for name in kept),
        F.when(~good, text).alias(MALFORMED),
        *(F.when(good, first.getField(name)).alias(name) for name in fields.names),
    )
    if observe is None:
        return rows
    return rows.observe(observe, F.count(F.lit(1)).alias("rows"), F.count(MALFORMED).alias("malformed"))


def split(df: DataFrame, *, value: str = "value") -> tuple[DataFrame, DataFrame]:
    """Return the well-formed rows of `parsed`, and the malformed ones with their text in the column `value`.

    Together they are all rows. Two queries on the parts of a stream each read the topic; to read it once, split inside
    `foreachBatch`, with the batch persisted.

    Args:
        df: Rows that `parsed` returned.
        value: The name of the column with the text of malformed rows.

    Returns:
        The well-formed and the malformed rows.

    Raises:
        InputError: An argument is wrong; the message names it, the value and the remedy.

    >>> from keyspread.spark import session
    >>> rows = session().createDataFrame([('{"user": "anna"}',), ("{",)], "value string")
    >>> good, bad = split(parsed(rows, "user STRING"))
    >>> good.count(), bad.collect()[0]["value"]
    (1, '{')
    """
    if MALFORMED not in df.columns:
        raise InputError(f"there is no column {MALFORMED!r}: pass the result of parsed()")
    text = F.col(MALFORMED)
    return df.where(text.isNull()).drop(MALFORMED), df.where(text.isNotNull()).withColumnRenamed(MALFORMED, value)


def _fields(schema: StructType | str) -> StructType:
    try:
        fields = schema_of_ddl(schema) if isinstance(schema, str) else schema
    except ParseException as problem:
        raise InputError(
            f"schema {schema!r} is not valid SQL such as 'user STRING, spent DOUBLE': {why(str(problem))}"
        ) from None
    if not isinstance(fields, StructType) or not fields.names:
        raise InputError(f"schema must be a StructType or SQL such as 'user STRING, spent DOUBLE', got {schema!r}")
    return fields
