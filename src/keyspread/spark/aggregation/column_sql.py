"""The SQL text of an aggregate that the user passed as a Column, on classic Spark and over Spark Connect.

A Column has no method that returns its SQL. Candidates are made from what it prints (classic) or from its wire format
(Connect). A candidate is used only if Spark says that it means the same as the Column (`DataFrame.sameSemantics`); if
none does, the Column is refused.
"""

import itertools
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from keyspread.errors import InputError
from keyspread.spark.capabilities import quiet_analysis
from keyspread.spark.routing.keys import field_of, quoted

_TOKENS = r"""
    (?P<kept>'(?:[^'\\]|\\.)*' | `(?:[^`]|``)*`)                              # a string, a name in backticks
  | (?P<name>{names})                                                         # a column whose name needs backticks
  | (?P<date>\b\d{{4,}}-\d\d-\d\d(?P<time>\ \d\d:\d\d:\d\d(?:\.\d+)?)?)       # Spark prints it without quotes
  | (?P<number>(?<![\w.])\d+\.\d*(?:E-?\d+)?(?![\w.]))                        # of type double or decimal
  | (?P<operator>(?<![^\s(,])(?:[-+*/%<>=!&|^~]+|and|or|not|in)(?=\())        # Spark prints a + b as +(a, b)
"""
_NEVER = r"(?!)"
_SUFFIXES = {"byte": "Y", "short": "S", "integer": "", "long": "L", "float": "F", "double": "D"}


def aggregate_sql(df: DataFrame, column: Column) -> tuple[str, str]:
    """Return the name that `groupBy().agg(column)` gives to this aggregate, and the call in SQL, without an alias.

    Raises an InputError if there is no candidate that means the same.
    """
    if not re.match(r"\w+\(", _printed(column)):
        raise InputError(f"aggregate {_printed(column)!r} must be one call such as F.sum('amount')")
    name = field_of("aggregate", column, lambda one: df.groupBy().agg(one)).name
    plain = df.groupBy().agg(column)  # only analysed, never run
    for text in dict.fromkeys(_texts(df, column)):
        if _means_the_same(plain, df, text):
            return name, text
    raise InputError(f"aggregate {_printed(column)[:80]!r} cannot be read from a Column: write it as SQL text")


def _means_the_same(plain: DataFrame, df: DataFrame, text: str) -> bool:
    try:
        with quiet_analysis():
            return plain.sameSemantics(df.groupBy().agg(F.expr(text)))
    except PySparkException:  # it is not valid SQL, or names no column of this DataFrame
        return False


def _texts(df: DataFrame, column: Any) -> Iterator[str]:
    """Yield candidates for the SQL of a column, the likeliest first."""
    if hasattr(type(column), "to_plan"):  # not of the instance: any attribute of a classic column is a field
        text = _of_message(column.to_plan(df.sparkSession.client), outermost=True)
        yield from () if text is None else (text,)
        return
    printed = _printed(column)
    odd = [name for name in df.columns if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)]
    for names, suffix in itertools.product((odd, []), ("D", "BD")):
        call = _call(_rewritten(printed, names, suffix))
        if call is not None:
            # Spark does not print DISTINCT: count(x) may be either.
            yield from (call, call.replace("(", "(DISTINCT ", 1))
    yield _call(printed) or printed  # a Column made by F.expr prints SQL


def _printed(column: Column) -> str:
    """Return 'sum(amount) AS total' for Column<'sum(amount) AS total'>."""
    return str(column)[len("Column<'") : -len("'>")]


def _rewritten(printed: str, names: list[str], suffix: str) -> str:
    """Turn what Spark prints into SQL: names in backticks, typed numbers and dates, operators as functions."""
    patterns = [rf"(?<![\w`]){re.escape(name)}(?![\w`])" for name in sorted(names, key=len, reverse=True)]
    tokens = re.compile(_TOKENS.format(names="|".join(patterns) or _NEVER), re.VERBOSE | re.DOTALL)

    def sql(match: re.Match[str]) -> str:
        text = match[0]
        if match["name"] or match["operator"]:
            return quoted(text)
        if match["date"]:
            return f"{'TIMESTAMP' if match['time'] else 'DATE'} '{text}'"
        return f"{text}{suffix}" if match["number"] else text

    function, bracket, rest = printed.partition("(")  # skipped, as a column may be named like the call: `sum(amount)`
    return function + bracket + tokens.sub(sql, rest)


def _call(text: str) -> str | None:
    """Cut off the alias: 'sum(amount) AS total' becomes 'sum(amount)'; return None if it is not one call."""
    depth = 0
    for match in re.finditer(r"'(?:[^'\\]|\\.)*'|`(?:[^`]|``)*`|[()]", text):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if depth == 0 and match[0] == ")":
            rest = text[match.end() :]
            return text[: match.end()] if not rest or rest.startswith(" AS ") else None
    return None


def _of_message(message: Any, outermost: bool = False) -> str | None:
    """Return the SQL of an expression in Spark Connect's wire format; None if its kind is not supported."""
    kind = message.WhichOneof("expr_type")
    value = getattr(message, kind)
    match kind:
        case "alias":
            child = _of_message(value.expr, outermost)
            return child if child is None or outermost else f"{child} AS {quoted('.'.join(value.name))}"
        case "expression_string":
            return _call(value.expression) or value.expression if outermost else f"({value.expression})"
        case "unresolved_attribute":
            name = str(value.unparsed_identifier)
            return quoted(name) if "`" not in name and "." not in name else name
        case "unresolved_star":
            return "*" if not value.unparsed_target else None
        case "literal":
            return _of_literal(value)
        case "unresolved_function" if not value.is_user_defined_function:
            arguments = [_of_message(argument) for argument in value.arguments]
            if None in arguments:
                return None
            # Backticks let operators be functions; struct is the one name that SQL reads differently with them.
            bare = outermost or value.function_name == "struct"
            name = value.function_name if bare else quoted(value.function_name)
            return f"{name}({'DISTINCT ' if value.is_distinct else ''}{', '.join(map(str, arguments))})"
        case "cast" if not value.eval_mode:
            child = _of_message(value.expr)
            return None if child is None else f"CAST({child} AS {_type(value)})"
        case "unresolved_extract_value":
            child, extraction = _of_message(value.child), _of_message(value.extraction)
            return None if child is None or extraction is None else f"{child}[{extraction}]"
    return None


def _type(cast: Any) -> str:
    from pyspark.sql.connect.types import proto_schema_to_pyspark_data_type

    return str(cast.type_str or proto_schema_to_pyspark_data_type(cast.type).simpleString())


def _of_literal(literal: Any) -> str | None:
    kind = literal.WhichOneof("literal_type")
    value = getattr(literal, kind)
    match kind:
        case "null":
            return "NULL"
        case "boolean":
            return str(value).upper()
        case "byte" | "short" | "integer" | "long":
            return f"{value}{_SUFFIXES[kind]}"
        case "float" | "double":
            return f"{value!r}{_SUFFIXES[kind]}"
        case "decimal":
            return f"{value.value}BD"
        case "string":
            return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"
        case "binary":
            return f"X'{value.hex()}'"
        case "date":
            return f"DATE '{(datetime(1970, 1, 1) + timedelta(days=value)).date()}'"
        case "timestamp":
            moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
            return f"TIMESTAMP '{moment.isoformat(' ')}'"
    return None
