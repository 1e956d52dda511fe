"""The types of a join, in all of Spark's spellings."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from keyspread.errors import InputError
from keyspread.spark._engine.capabilities import is_column, is_variant, quiet_analysis
from keyspread.spark._routing.keys import contains, in_sql, type_of


class Kind(Enum):
    """A type of join; the value is the name that Spark takes."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "left_semi"
    ANTI = "left_anti"

    @property
    def preserves_left(self) -> bool:
        """Whether a left row without a partner belongs to the result."""
        return self in (Kind.LEFT, Kind.FULL, Kind.ANTI)

    @property
    def preserves_right(self) -> bool:
        """Whether a right row without a partner belongs to the result."""
        return self in (Kind.RIGHT, Kind.FULL)

    @property
    def has_left_columns_only(self) -> bool:
        """Whether the right side only decides which left rows belong to the result."""
        return self in (Kind.SEMI, Kind.ANTI)


_SPELLINGS = {
    "inner": Kind.INNER,
    "left": Kind.LEFT,
    "leftouter": Kind.LEFT,
    "right": Kind.RIGHT,
    "rightouter": Kind.RIGHT,
    "full": Kind.FULL,
    "outer": Kind.FULL,
    "fullouter": Kind.FULL,
    "semi": Kind.SEMI,
    "leftsemi": Kind.SEMI,
    "anti": Kind.ANTI,
    "leftanti": Kind.ANTI,
}


def kind_of(how: Any) -> Kind:
    """Return the type of a join by any of Spark's names for it.

    >>> kind_of("Full_Outer"), kind_of("leftsemi")
    (<Kind.FULL: 'full'>, <Kind.SEMI: 'left_semi'>)
    """
    spelled = how.lower().replace("_", "") if isinstance(how, str) else None
    if spelled == "cross":
        raise InputError("how='cross' has no keys, so no key can be hot; use left.crossJoin(right)")
    if spelled not in _SPELLINGS:
        raise InputError(f"how must be one of inner, left, right, full, semi, anti, got {how!r}")
    return _SPELLINGS[spelled]


# What two sides are joined on: pairs of columns, and the form in which their values are compared and hashed.
#
# Spark compares some values in a form of their own: it casts an INT to the BIGINT of the other side, and treats -0.0 as
# 0.0. Rows must be hashed in the same form, so that equal keys meet. Such keys are computed first, as columns that are
# then plain integers or texts. Where SQL cannot compute the form (collated texts), keys are not cut.


_NESTED = ("struct", "array")
# What we compare and hash as Spark does. Others, such as user-defined types, are left to Spark.
_KNOWN = (
    T.ArrayType,
    T.BinaryType,
    T.BooleanType,
    T.DateType,
    T.DayTimeIntervalType,
    T.NumericType,
    T.StringType,
    T.StructType,
    T.TimestampNTZType,
    T.TimestampType,
    T.YearMonthIntervalType,
)

On = str | Sequence[str | tuple[str, str]]


@dataclass(frozen=True)
class KeyPair:
    """A column of the left side and the one of the right side that it is compared with."""

    left: str
    right: str
    left_sql: str
    right_sql: str
    kind: str  # the type in which both are compared, as Spark prints it
    form: str  # what is compared, as SQL with {} for the value
    is_plain: bool  # whether the columns can be compared as they are


@dataclass(frozen=True)
class JoinKeys:
    """All pairs of a join, and how they are compared."""

    pairs: tuple[KeyPair, ...]
    by_name: bool  # the result has each key once, as with left.join(right, "key")
    null_safe: bool
    whole_because: str | None = None  # why keys of these types cannot be cut

    @property
    def is_plain(self) -> bool:
        """Whether all columns can be compared as they are."""
        return not self.null_safe and all(pair.is_plain for pair in self.pairs)

    @property
    def names(self) -> tuple[tuple[str, str, str], ...]:
        """The names of each pair, and the type in which it is compared: what a stored plan is for."""
        return tuple((pair.left, pair.right, pair.kind) for pair in self.pairs)

    def sql_of(self, side: str, as_they_are: bool = False) -> list[str]:
        """Return what is compared and hashed, as SQL, on the "left" or the "right" side, or the columns as they are."""
        values = [pair.left_sql if side == "left" else pair.right_sql for pair in self.pairs]
        if as_they_are:
            return values
        forms = [pair.form.format(value) for pair, value in zip(self.pairs, values, strict=True)]
        return [f"named_struct('key', {form})" for form in forms] if self.null_safe else forms

    def hash_parts(self, side: str) -> list[str]:
        """Return what tells different keys apart when hashed, as SQL."""
        values = [pair.left_sql if side == "left" else pair.right_sql for pair in self.pairs]
        forms = [pair.form.format(value) for pair, value in zip(self.pairs, values, strict=True)]
        # A hash skips nulls. In a struct or array, the text tells where they are: with nulls written out, because two
        # fields of a struct may have one name.
        nested = [form for pair, form in zip(self.pairs, forms, strict=True) if pair.kind.startswith(_NESTED)]
        texts = [f"to_json(named_struct('key', {form}), map('ignoreNullFields', 'false'))" for form in nested]
        parts = [*forms, *texts]
        return [*parts, *(f"isnull({value})" for value in values)] if self.null_safe else parts

    def values(self, side: str) -> list[str]:
        """Return the keys as they are shown, as SQL: values of the type in which they are compared."""
        values = [pair.left_sql if side == "left" else pair.right_sql for pair in self.pairs]
        return [
            # Nested types are the same on both sides, and the names of their fields may be no SQL.
            value if pair.kind.startswith(_NESTED) else f"CAST({value} AS {pair.kind})"
            for pair, value in zip(self.pairs, values, strict=True)
        ]

    def has_null(self, side: str) -> str:
        """Return whether a row has a null in its key, as SQL: such a row has no partner."""
        values = [pair.left_sql if side == "left" else pair.right_sql for pair in self.pairs]
        return "false" if self.null_safe else " OR ".join(f"isnull({value})" for value in values)


def join_keys(left: DataFrame, right: DataFrame, on: Any, null_safe: bool) -> JoinKeys:
    """Read `on`: a name, names, or pairs of names. Check that the columns exist and can be compared."""
    pairs, by_name = pairs_of(on)
    found: list[KeyPair] = []
    whole: str | None = None
    for names in pairs:
        pair, reason = _key_pair(left, right, *names)
        if by_name and not (pair.left in left.columns and pair.right in right.columns):
            raise InputError(f"on has {names[0]!r}, a field of a struct; pass it as a pair: [({names[0]!r}, …)]")
        if any((pair.left_sql, pair.right_sql) == (other.left_sql, other.right_sql) for other in found):
            raise InputError(f"on has {names[0] if names[0] == names[1] else names!r} twice; name each key once")
        found.append(pair)
        whole = whole or reason
    return JoinKeys(tuple(found), by_name, null_safe, whole)


def pairs_of(on: Any) -> tuple[list[tuple[str, str]], bool]:
    """Return the pairs of names in `on`, and whether it has names only, so that the result has each key once."""
    if is_column(on):
        raise InputError(
            "on must be a name, names or pairs of names, got a Column; "
            "pass pairs such as [('a', 'b')], and what is not an equality as condition="
        )
    parts = [on] if isinstance(on, str) else list(on) if isinstance(on, (list, tuple)) else []
    if not parts:
        raise InputError(f"on must be a name, names or pairs of names, got {on!r}; for a cross join use crossJoin")
    by_name = all(isinstance(part, str) for part in parts)
    return [(part, part) if isinstance(part, str) else _pair(part) for part in parts], by_name


def _pair(part: Any) -> tuple[str, str]:
    if not isinstance(part, (tuple, list)) or len(part) != 2 or not all(isinstance(name, str) for name in part):
        raise InputError(f"on must be a name, names or pairs of names, got {part!r} in it")
    return part[0], part[1]


def _key_pair(left: DataFrame, right: DataFrame, one: str, other: str) -> tuple[KeyPair, str | None]:
    """Return a pair, and why its keys cannot be cut if that is so."""
    names = [_actual(left, "left", one), _actual(right, "right", other)]
    kinds = [_type(df, side, name) for df, side, name in zip((left, right), ("left", "right"), names, strict=True)]
    for side, name, kind in zip(("left", "right"), names, kinds, strict=True):
        if contains(kind, lambda one: isinstance(one, T.MapType) or is_variant(one)):
            raise InputError(
                f"column {name!r} of the {side} side has type {kind.simpleString()}, which Spark cannot compare; "
                "use to_json or a field of it as key"
            )
    sql = [in_sql(left, names[0]), in_sql(right, names[1])]
    kind, reason = _common_kind(left, names, kinds)
    if any(_is_char(df, name) for df, name in zip((left, right), names, strict=True)):
        reason = f"{names[0]!r} is of type CHAR, which is compared with its padding"
    text = kind.simpleString()
    form = f"CAST({{}} AS {text})" if len({one.simpleString() for one in kinds}) > 1 and reason is None else "{}"
    if isinstance(kind, (T.DoubleType, T.FloatType)):  # -0.0 + 0.0 is 0.0, and every NaN is 'NaN'
        form = f"CAST({form} + CAST(0 AS {text}) AS STRING)"
    return KeyPair(names[0], names[1], sql[0], sql[1], text, form, form == "{}"), reason


def _actual(df: DataFrame, side: str, name: str) -> str:
    """Return the name of a column as the DataFrame spells it; refuse a name that is missing or ambiguous."""
    sensitive = str(df.sparkSession.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"
    same = [column for column in df.columns if column == name or (not sensitive and column.lower() == name.lower())]
    if len(same) > 1:
        raise InputError(f"{len(same)} columns of the {side} side are called {name!r}; rename them")
    return same[0] if same else name


def _type(df: DataFrame, side: str, name: str) -> T.DataType:
    try:
        return type_of(df, name)
    except InputError as problem:
        raise InputError(f"{side} side: {problem}") from None


def _common_kind(df: DataFrame, names: list[str], kinds: list[T.DataType]) -> tuple[T.DataType, str | None]:
    """Return the type in which Spark compares two columns, and why they cannot be cut if that is so."""
    one, other = kinds
    if any(isinstance(kind, T.NullType) for kind in kinds):
        return one, f"{names[0]!r} has no type, so all keys are null"
    for name, kind in zip(names, kinds, strict=True):
        if contains(kind, _is_unknown):
            return kind, f"{name!r} has type {kind.simpleString()}, which only Spark knows how to compare"
    if one.simpleString() == other.simpleString():
        nested = isinstance(one, (T.StructType, T.ArrayType)) and contains(one, _has_own_form)
        if nested or "collate" in one.simpleString():
            return one, f"{names[0]!r} has type {one.simpleString()}, which is compared in a form of its own"
        return one, None
    if any(isinstance(kind, (T.StringType, T.StructType, T.ArrayType, T.BinaryType)) for kind in kinds):
        types = f"{one.simpleString()} and {other.simpleString()}"
        return one, f"{names[0]!r} and {names[1]!r} have types {types}: cast one of them"
    pair = T.StructType([T.StructField("one", one), T.StructField("other", other)])
    rows = df.sparkSession.createDataFrame([], pair)
    # Types other than text have the same common type here and in a comparison.
    common = _type_in(rows, "coalesce(one, other)")
    if common is not None:
        return common, None
    if _type_in(rows, "one = other") is not None:  # boolean and number, without ANSI
        types = f"{one.simpleString()} and {other.simpleString()}"
        return one, f"{names[0]!r} and {names[1]!r} have types {types}: cast one of them"
    raise InputError(
        f"{names[0]!r} has type {one.simpleString()} and {names[1]!r} has type {other.simpleString()}, "
        "which Spark cannot compare; cast one of them"
    )


def _type_in(rows: DataFrame, expression: str) -> T.DataType | None:
    """Return the type of an expression, or None if Spark cannot compute it."""
    try:
        with quiet_analysis():
            return rows.selectExpr(expression).schema[0].dataType
    except AnalysisException:
        return None


def _is_char(df: DataFrame, name: str) -> bool:
    """Return whether a column is of type CHAR(n), or contains it; Spark keeps that beside the type."""
    beside = [field.metadata.get("__CHAR_VARCHAR_TYPE_STRING", "") for field in df.schema.fields if field.name == name]
    return any(re.search(r"(?<!var)char\(", text.lower()) for text in beside)


def _is_unknown(kind: T.DataType) -> bool:
    return not isinstance(kind, _KNOWN)


def _has_own_form(kind: T.DataType) -> bool:
    return isinstance(kind, (T.DoubleType, T.FloatType)) or "collate" in kind.simpleString()
