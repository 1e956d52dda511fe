"""Which rows are the same when they are computed again: the one rule behind `spread`, `aggregate`, `join` and the rest.

Where Spark does not protect retried tasks, *only what is known to be repeatable passes*. We read the optimized logical
plan from the leaves up:

- Rows in a fixed order (files, ranges, and what is computed from them row by row) are the same on every attempt,
  whatever is computed: a function in Python, `rand()`.
- Behind a shuffle only the order of rows changes. So they stay the same rows behind operators that do not look at the
  order, with expressions that we know, and with aggregates whose result is the same for any order.
- Everything else may return other rows: first, avg of floating-point numbers, `row_number` with ties, functions in
  Python.

The plan does not tell the type of a column, except that a bigint ends with L, as in `id#0L`. The types of the result
are known. So `max` passes if it is itself a column of the result, and its type is exact.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keyspread.errors import InputError
from keyspread.spark._engine.capabilities import is_variant, quiet_analysis
from keyspread.spark._routing.keys import quoted
from keyspread.spark._routing.plan_text import (
    Operator,
    below,
    has_fixed_order,
    operators_of,
    optimized_plan,
    physical_plan,
)

# Operators of an optimized plan that keep a fixed order, if the scans of the physical plan have one.
_KEEP_ORDER = frozenset(["LocalRelation", "OneRowRelation", "Relation", "RelationV2", "StreamingRelationV2"])
# They compute nothing by which rows differ. With those of the physical plan of what is cached.
_MOVE = frozenset(
    [
        "AQEShuffleRead",
        "AdaptiveSparkPlan",
        "BatchScan",
        "BroadcastExchange",
        "BroadcastQueryStage",
        "Coalesce",
        "CollectMetrics",
        "ColumnarToRow",
        "EventTimeWatermark",
        "Exchange",
        "FileScan",
        "InMemoryRelation",
        "InMemoryTableScan",
        "InputAdapter",
        "LocalRelation",
        "LocalTableScan",
        "LogicalRDD",
        "OneRowRelation",
        "Range",
        "RebalancePartitions",
        "Relation",
        "RelationV2",
        "Repartition",
        "RepartitionByExpression",
        "ResultQueryStage",
        "ReusedExchange",
        "Scan",
        "ShuffleQueryStage",
        "Sort",
        "StreamingRelation",
        "StreamingRelationV2",
        "TableCacheQueryStage",
    ]
)
# They compute new rows from what is written in their details.
_COMPUTE = frozenset(
    [
        "Aggregate",
        "BroadcastHashJoin",
        "BroadcastNestedLoopJoin",
        "CartesianProduct",
        "Expand",
        "Filter",
        "Generate",
        "Join",
        "Project",
        "ShuffledHashJoin",
        "SortMergeJoin",
        "Union",
        "Window",
        "WindowGroupLimit",
    ]
)
# Functions of one row whose result depends on their arguments alone, as Spark prints them.
_OF_A_ROW = """
abs acos acosh add_months aes_decrypt aggregate array array_append array_compact array_contains array_distinct
array_except array_insert array_intersect array_join array_max array_min array_position array_prepend array_remove
array_repeat array_size array_sort array_union arrays_overlap arrays_zip ascii asin asinh atan atan2 atanh
atleastnnonnulls base64 bigint bin binary bit_count bit_get bit_length bitmap_bit_position bitmap_bucket_number
bitmap_count boolean bround btrim cardinality cast cbrt ceil ceiling char char_length character_length checkoverflow
chr coalesce collate collation collationkey concat concat_ws contains conv convert_timezone cos cosh cot crc32 csc
date date_add date_diff date_format date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart day
dayname dayofmonth dayofweek dayofyear decimal decode degrees double dynamicpruningexpression e element_at elt encode
endswith equal_null exists exp explode explode_outer expm1 extract factorial filter find_in_set flatten float floor
forall format_number format_string from_base32 from_csv from_json from_unixtime from_utc_timestamp get get_json_object
getbit gettimestamp greatest grouping grouping_id hash hashpartitioning hex hmac hour hypot if ifnull initcap inline
inline_outer instr int interval invoke is_valid_utf8 is_valid_variant is_variant_null isnan isnotnull isnull
jaro_winkler_similarity json_array_length json_object_keys json_tuple knownfloatingpointnormalized knownnotnull
knownnullable lambdafunction last_day lcase least left len length levenshtein ln locate log log10 log1p log2 lower
lpad ltrim luhn_check make_date make_dt_interval make_interval make_time make_timestamp make_timestamp_ltz
make_timestamp_ntz make_valid_utf8 make_ym_interval makedecimal map map_concat map_contains_key map_entries map_filter
map_from_arrays map_from_entries map_keys map_sort map_values map_zip_with mapsort mask md5 might_contain minute mod
month monthname months_between multigetjsonobject named_struct namedlambdavariable nanvl negative next_day
normalizenanandzero nullif nullifzero nvl nvl2 octet_length overlay parse_json parse_url pi pmod posexplode
posexplode_outer position positive pow power precisetimestampconversion printf promote_precision quarter quote radians
reduce regexp regexp_count regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr
repeat replace replicaterows reverse right rint round rpad rtrim schema_of_csv schema_of_json schema_of_variant sec
second sentences sequence sha sha1 sha2 shiftleft shiftright shiftrightunsigned sign signum sin sinh size slice
smallint sort_array soundex space split split_part sqrt stack startswith static_invoke str_to_map string struct substr
substring substring_index tan tanh time time_bucket time_diff time_from_micros time_from_millis time_from_seconds
time_to_micros time_to_millis time_to_seconds time_trunc timestamp timestamp_add timestamp_diff timestamp_micros
timestamp_millis timestamp_nanos timestamp_seconds timestampadd timestampdiff tinyint to_base32 to_binary to_char
to_csv to_date to_json to_number to_time to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp
to_utc_timestamp to_varchar to_variant_object transform transform_keys transform_values translate trim trunc try_add
try_aes_decrypt try_divide try_element_at try_make_interval try_make_timestamp try_make_timestamp_ltz
try_make_timestamp_ntz try_mod try_multiply try_parse_json try_parse_url try_subtract try_to_binary try_to_date
try_to_number try_to_time try_to_timestamp try_url_decode try_validate_utf8 typeof ucase unbase64 unhex unix_date
unix_micros unix_millis unix_nanos unix_seconds unix_timestamp unscaledvalue upper url_decode url_encode validate_utf8
varchar variant_explode variant_explode_outer variant_get weekday weekofyear width_bucket window window_time xxhash64
year zeroifnull zip_with
"""
_NAMES_OF_A_ROW = frozenset(_OF_A_ROW.split())
# Their result is the same for any order of the rows, whatever the type: they count, or combine bits.
_OF_ANY_TYPE = frozenset(["approx_count_distinct", "bit_and", "bit_or", "bit_xor", "bloom_filter_agg", "count"])
# Here it depends on the type: sums of floating-point numbers round, and -0.0 and 0.0 are both the largest.
_OF_EXACT_TYPES = frozenset(["avg", "max", "min", "sum"])
_RANKS = frozenset(["cume_dist", "dense_rank", "percent_rank", "rank"])  # rows with equal values have equal ranks
_PARTS_OF_WINDOW = frozenset(["currentrow$", "specifiedwindowframe", "unboundedfollowing$", "unboundedpreceding$"])
_SOME_ROWS = re.compile(r"specifiedwindowframe\(RowFrame, (?!unboundedpreceding\$\(\), unboundedfollowing\$\(\)\))")

_EXACT = (
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.DecimalType,
    T.BooleanType,
    T.StringType,
    T.BinaryType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
    T.DayTimeIntervalType,
    T.YearMonthIntervalType,
)
# Other values on every attempt, in any order. Spark says so of the second only.
_BY_CHANCE = re.compile(r"\b(aes_?encrypt\b|reflect\(|java_method\()", re.IGNORECASE)
_CAST_TO_EXACT = re.compile(r" as (tinyint|smallint|int|bigint|boolean|date|timestamp|timestamp_ntz|binary)$")
_CALL = re.compile(r"([\w.$]+)\(")
_COLUMN = re.compile(r"#(\d+)(L?)$")
_BIGINT = re.compile(r"[\w.]*#\d+L|-?\d+")  # a column, or a constant
_HIDDEN = re.compile(r"\.\.\. \d+ more fields")  # spark.sql.debug.maxToStringFields
_NO_BIGGER_SUM = 38  # digits of a decimal; a sum that may have more is null or not, depending on the order of rows

Types = Mapping[str, T.DataType]
"""The type of a column of a plan, by its number."""


class _HiddenFieldsError(Exception):
    """Spark printed only the first fields of an operator that matters."""


class _UnreadableError(Exception):
    """Brackets do not match, or the like: a column has an odd name."""


def unrepeatable(df: DataFrame) -> str | None:
    """Return what may compute other rows if it runs again, or None if every attempt computes the same ones."""
    physical = operators_of(physical_plan(df))
    return None if has_fixed_order(physical) else _unrepeatable(df, df.columns, physical)


def _unrepeatable(df: DataFrame, names: Sequence[str], physical: Sequence[Operator]) -> str | None:
    """Read the plan of these columns; if Spark does not print all of it, those of either half."""
    try:
        return _reason(df, physical)
    except _HiddenFieldsError:
        if len(names) <= 1 or len({name.lower() for name in df.columns}) < len(df.columns):
            return "Spark prints only the first fields of the plan: raise spark.sql.debug.maxToStringFields"
    half = len(names) // 2
    for part in (names[:half], names[half:]):
        some = df.select(*map(quoted, part))
        reason = _unrepeatable(some, part, operators_of(physical_plan(some)))
        if reason is not None:
            return reason
    return None


def _reason(df: DataFrame, physical: Sequence[Operator]) -> str | None:
    """Read the plan from its end, so that what an operator gets its rows from is read before it."""
    fields = [field for field in df.schema.fields if _is_exact_type(field.dataType)]
    known = [field for field in fields if [name.lower() for name in df.columns].count(field.name.lower()) == 1]
    # On top of this plan is an operator that lists these columns with their numbers.
    plan = operators_of(optimized_plan(df.repartition(2, *(quoted(field.name) for field in known)) if known else df))
    has_scans_in_order = all(
        operator.keeps_order for number, operator in enumerate(physical) if not below(physical, number)
    )
    joins_in_order = not any("Join" in operator.name and not operator.keeps_order for operator in physical)
    in_order = [
        has_scans_in_order
        and (
            operator.keeps_order
            or operator.name in _KEEP_ORDER
            or (operator.name == "Join" and joins_in_order)
            or (operator.name == "Repartition" and operator.details.endswith("false"))  # coalesce
        )
        for operator in plan
    ]
    sorts_groups = any(operator.name == "SortAggregate" for operator in physical)
    names: dict[str, str] = {}
    try:
        types = _types(plan[0], known) if known else {}
        for number in reversed(range(len(plan))):
            if by_chance := _BY_CHANCE.search(plan[number].details):
                return by_chance[1]
            if not all(in_order[number : number + 1 + len(below(plan, number))]):
                reason = _of_operator(plan[number], names, types, sorts_groups)
                if reason is not None:
                    return reason
            with suppress(_UnreadableError):  # then no operator above it can be read either, if it matters
                names |= _new_names(plan[number])
    except _UnreadableError:
        return "its plan has names or constants with brackets that do not match: rename the columns"
    return None


def _types(top: Operator, fields: Sequence[T.StructField]) -> dict[str, T.DataType]:
    """Return the types of the columns that an operator lists, by number."""
    if _HIDDEN.search(top.details):
        raise _HiddenFieldsError
    columns = map(_COLUMN.search, next(_lists(top.details), []))
    return {column[1]: field.dataType for column, field in zip(columns, fields, strict=False) if column}


def _of_operator(operator: Operator, names: Mapping[str, str], types: Types, sorts_groups: bool) -> str | None:
    """Return what in an operator may return other rows for other orders of its input."""
    if operator.name in _MOVE:
        return None
    if operator.name not in _COMPUTE:
        return operator.name
    if _HIDDEN.search(operator.details):
        raise _HiddenFieldsError
    details = operator.details
    for name in sorted(names, key=len, reverse=True):
        details = details.replace(name, names[name])
    if operator.name not in ("Aggregate", "Window"):
        known = _RANKS if operator.name == "WindowGroupLimit" else frozenset[str]()
        calls = (call[1] for call in _CALL.finditer(details))
        return next((call for call in calls if call not in known and not _is_of_a_row(call)), None)
    lists = list(_lists(details))
    for item in (item for items in lists for item in items):
        expression, name = _named(item)
        of_item = _of_window if " windowspecdefinition(" in expression else _of_group
        reason = of_item(expression, _type_of(name, types))
        if reason is not None:
            return reason
    # Groups of texts with a collation are made by sorting: 'a' and 'A' are one, and its name that of the first.
    has_keys = operator.name == "Aggregate" and len(lists) > 1
    if has_keys and sorts_groups and any(_type_of(key, types) is None for key in lists[0]):
        return "a group whose key may be a text with a collation"
    return None


def _type_of(name: str, types: Types) -> T.DataType | None:
    column = _COLUMN.search(name)
    return types.get(column[1], T.LongType() if column[2] else None) if column else None


def _of_group(expression: str, type_: T.DataType | None) -> str | None:
    """Return what in a column of an aggregate depends on the order of rows; the type is that of the column."""
    for call, argument, begin, end in _calls(expression):
        if expression[end : end + 1] == "#":
            return f"{call}, a function in Python"
        if call in _OF_ANY_TYPE or call in _OF_EXACT_TYPES:
            is_whole = begin == 0 and re.fullmatch(r"( FILTER \(.*\))?", expression[end:], re.DOTALL)
            if call in _OF_EXACT_TYPES and not _is_exact(call, argument, type_ if is_whole else None):
                return f"{call} of floating-point numbers, or of a type that the plan does not tell"
        elif not _is_of_a_row(call):
            return call
    return None


def _of_window(expression: str, type_: T.DataType | None) -> str | None:
    """Return what in a column of a window depends on the order of rows with equal values."""
    function, window = expression.split(" windowspecdefinition(", 1)
    calls = list(_calls(function))
    if calls and calls[0][2] == 0 and calls[0][0] in _RANKS:
        if function[calls[0][3] :]:
            return f"{calls[0][0]}, a function in Python"
        function = ""
    elif _SOME_ROWS.search(window):
        return f"{calls[0][0] if calls else function} over a window of rows"
    inner = (call for call, *_ in _calls(window) if call not in _PARTS_OF_WINDOW and not _is_of_a_row(call))
    return _of_group(function, type_) or next(inner, None)


def _is_exact(call: str, argument: str, type_: T.DataType | None) -> bool:
    """Return whether the result is the same for any order; the type is that of the result, if it is known."""
    if isinstance(type_, T.DecimalType):
        # An average has 4 digits more than its argument, a sum 10 more. Short decimals are averaged as double, but then
        # the average is not a column by itself.
        digits = {"avg": type_.precision + 6, "sum": type_.precision}.get(call, 0)
        return digits < _NO_BIGGER_SUM
    if type_ is not None:
        return call != "avg"
    argument = argument.removeprefix("distinct ")
    if call == "avg":
        return False
    if _BIGINT.fullmatch(argument) or argument.startswith("UnscaledValue("):
        return True
    first = next(_calls(argument), None)
    is_cast = first is not None and first[0] == "cast" and first[2:] == (0, len(argument))
    return is_cast and _CAST_TO_EXACT.search(argument[:-1]) is not None


def _is_exact_type(kind: T.DataType) -> bool:
    return isinstance(kind, _EXACT) and "collate" not in kind.simpleString()


def _is_of_a_row(call: str) -> bool:
    return call.rpartition(".")[2].lower() in _NAMES_OF_A_ROW


def _new_names(operator: Operator) -> dict[str, str]:
    """Return the columns that an operator makes and whose names look like expressions, with what to read instead."""
    computes = operator.name in ("Aggregate", "Filter", "Join", "Project", "Window")
    found = {}
    for items in _lists(operator.details):
        for item in items:
            name = _named(item)[1] or ("" if computes else item)
            column = _COLUMN.search(name)
            if column is not None and not name.replace("#", "").isidentifier():
                found[name] = f"_#{column[1]}{column[2]}"
    return found


def _named(item: str) -> tuple[str, str]:
    """Split `expression AS name#1` at the AS outside of brackets; without one, there is no name."""
    places = [place for place, depth in _depths(item) if depth == 0 and item.startswith(" AS ", place)]
    if not places:
        return item, ""
    if len(places) > 1:
        raise _UnreadableError
    return item[: places[0]], item[places[0] + len(" AS ") :]


def _calls(text: str) -> Iterator[tuple[str, str, int, int]]:
    """Return the function calls in a text: name, arguments, begin and end.

    >>> list(_calls("sum(abs(x#1))"))
    [('sum', 'abs(x#1)', 0, 13), ('abs', 'x#1', 4, 12)]
    """
    for call in _CALL.finditer(text):
        depths = ((call.end() + place, depth) for place, depth in _depths(text[call.end() :]))
        end = next((place for place, depth in depths if depth < 0), None)
        if end is None:
            raise _UnreadableError
        yield call[1], text[call.end() : end], call.start(), end + 1


def _lists(text: str) -> Iterator[list[str]]:
    """Return the lists in square brackets that are in no other bracket, each with its items.

    >>> list(_lists(" [k#1], [k#1, max(a#2, b#3) AS m#4]"))
    [['k#1'], ['k#1', 'max(a#2, b#3) AS m#4']]
    """
    begin = 0
    items: list[str] | None = None
    for place, depth in _depths(text):
        if items is None and text[place] == "[" and depth == 1:
            begin, items = place + 1, []
        elif items is not None and text[place] == "," and depth == 1:
            items.append(text[begin:place].strip())
            begin = place + 1
        elif items is not None and depth == 0:
            yield [*items, text[begin:place].strip()]
            items = None
    if items is not None:
        raise _UnreadableError


def _depths(text: str) -> Iterator[tuple[int, int]]:
    """Return every place of a text, and in how many brackets it is; brackets count as inside, closing ones outside."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        yield place, depth


# Whether the order of the rows of a partition is the same when a task is retried, and an order that always is.
#
# A sender learns from its rows in their order, and a plan cuts hot keys by position. So a retried task routes the same
# only if it reads its rows in the same order. Three cases:
#
# - Files, ranges and what is computed from them row by row have a fixed order.
# - Behind a shuffle, the order depends on which blocks arrive first. Where Spark compares the checksums of shuffles
#   between attempts, it re-runs all that changed, so the order does not matter.
# - Otherwise rows are routed in the order of their `fingerprint`. Rows with the same one are identical, so it does not
#   matter which is which.


PROTECTION = (
    "spark.sql.shuffle.orderIndependentChecksum.enabled",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch",
)
"""With both settings on, Spark re-runs a stage whose rows went elsewhere than at the first attempt."""

REMEDY = (
    f"set {PROTECTION[0]} and {PROTECTION[1]} to true (Spark 4.1 and newer), "
    "or write the rows to files, or checkpoint() them, and use those"
)


def repeatable_order(df: DataFrame) -> Column | None:
    """Return what to order the rows of a partition by, or None if the order that they have may be used.

    Rows that may differ when they are computed again are refused, because no order of them can be repeated.
    """
    if is_protected(df.sparkSession):
        return None
    try:
        if has_fixed_order(operators_of(physical_plan(df))):
            return None
        reason = unrepeatable(df)
    except InputError as problem:
        raise InputError(f"{problem}, or {REMEDY}") from None
    if reason is not None:
        raise InputError(
            f"the rows may depend on the order of rows behind a shuffle ({reason}), so a retried task may compute "
            f"other rows: {REMEDY}"
        )
    return fingerprint(df)


def is_protected(spark: SparkSession) -> bool:
    """Return whether Spark compares the output of a retried task with that of the first attempt.

    >>> from keyspread.spark import session
    >>> is_protected(session())  # by default from Spark 4.2 on
    True
    """
    return all(_is_on(spark, name) for name in PROTECTION)


def _is_on(spark: SparkSession, name: str) -> bool:
    try:
        # Not get(name, "false"): that returns "false" wherever nobody has set it, whatever Spark's own default is.
        return str(spark.conf.get(name)).lower() == "true"
    except Exception:  # this version does not have it; the class of the error depends on the version
        return False


def fingerprint(df: DataFrame) -> Column:
    """Return a 64-bit hash of the whole row that tells apart all rows that are not identical.

    Unlike Spark's own hash of several columns it tells ('a', null) from (null, 'a') and 0.0 from -0.0, and it takes
    maps and variants.
    """
    names = df.columns if _is_on(df.sparkSession, "spark.sql.caseSensitive") else [name.lower() for name in df.columns]
    twice = [name for name, known in zip(df.columns, names, strict=True) if names.count(known) > 1]
    if twice:
        called = "" if len({*twice}) == 1 else f" or {next(name for name in twice if name != twice[0])!r}"
        raise InputError(f"{len(twice)} columns are called {twice[0]!r}{called}; rename them")
    whole = F.xxhash64(*(part for field in df.schema.fields for part in _parts(F.col(quoted(field.name)), field)))
    for field in df.schema.fields:
        try:
            with quiet_analysis():
                df.select(F.xxhash64(*_parts(F.col(quoted(field.name)), field))).schema  # noqa: B018
        except AnalysisException:
            raise InputError(
                f"column {field.name!r} has type {field.dataType.simpleString()}, which Spark cannot hash, so the "
                f"order of the rows cannot be repeated: {REMEDY}"
            ) from None
    return whole


def _parts(value: Column, field: T.StructField) -> list[Column]:
    """Return what to hash of a value, so that different values have different parts."""
    parts = _parts_of_type(value, field.dataType)
    return [value.isNull(), *parts] if field.nullable else parts  # a null itself is skipped by the hash


def _parts_of_type(value: Column, kind: T.DataType) -> list[Column]:
    if isinstance(kind, (T.DoubleType, T.FloatType)):
        return [value, F.when(value == 0, value.cast("string"))]  # 0.0 and -0.0 have the same hash
    if isinstance(kind, T.StringType):
        return [value.cast("binary")] if "collate" in kind.simpleString() else [value]
    if isinstance(kind, T.StructType):
        return [part for field in kind.fields for part in _parts(value[field.name], field)]
    if isinstance(kind, T.ArrayType):
        element = T.StructField("element", kind.elementType, kind.containsNull)
        return [F.size(value), F.transform(value, lambda one: F.struct(*_parts(one, element)))]
    if isinstance(kind, T.MapType):
        entry = T.StructType(
            [T.StructField("key", kind.keyType, False), T.StructField("value", kind.valueType, kind.valueContainsNull)]
        )
        return _parts_of_type(F.map_entries(value), T.ArrayType(entry, False))
    if is_variant(kind):
        return [F.to_json(value), F.schema_of_variant(value)]
    return [value]
