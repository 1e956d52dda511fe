"""`aggregate`: partial states on the workers, merged by key, equal to the plain answer."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, StructType

from keyspread.errors import InputError
from keyspread.operators import Operator
from keyspread.spark.keys import Key, column, key_columns, quoted
from keyspread.spark.operate import run_operator
from keyspread.spark.parts import EXACT_AVERAGE, RULES, Aggregate, parse
from keyspread.spark.route import with_worker

Aggregates = Mapping[str, Any] | Operator[Any]


def aggregate(
    df: DataFrame, key: Key, aggregates: Aggregates, workers: int, scheme: str | None = None, **options: Any
) -> DataFrame:
    """Give what `df.groupBy(key).agg(…)` gives, computed in balance: equal if exact, else within the sketch's bound.

    `aggregates` maps names of the result to SQL calls, {"total": "sum(amount)", "n": "count(*)"}, or columns to
    functions as Spark's own `agg` does, {"amount": "sum"}; or it is an `Operator` of your own. `scheme` and options
    are those of `spread`.

    >>> from keyspread.spark import aggregate, session
    >>> rows = session().range(1000).selectExpr("if(id % 3 = 0, 'hot', 'cold') AS k", "id AS v")
    >>> aggregate(rows, "k", {"n": "count(*)", "most": "max(v)"}, workers=4).orderBy("k").collect()
    [Row(k='cold', n=666, most=998), Row(k='hot', n=334, most=999)]
    """
    names = key_columns(df, key)
    if isinstance(aggregates, Operator):
        routed, worker = with_worker(df, key, workers, scheme, **options)
        return run_operator(routed.repartitionById(workers, worker).drop(worker), names, aggregates)
    wanted = _parsed(aggregates)
    grouped = df.groupBy(*(column(df, name) for name in names))
    plain = grouped.agg(*(F.expr(one.plain).alias(one.name) for one in wanted)).schema  # only looked at, never run
    wanted = [_for_type(one, plain) for one in wanted]
    routed, worker = with_worker(df, key, workers, scheme, **options)
    moved = routed.repartitionById(workers, worker)
    # Grouped by the worker too, Spark sees that the rows already lie right: no further exchange.
    parts = moved.groupBy(worker, *(column(df, name) for name in names)).agg(
        *(part.alias(f"keyspread_part_{i}_{j}") for i, one in enumerate(wanted) for j, part in enumerate(_parts(one)))
    )
    keys = [quoted(field.name) for field in plain.fields[: len(names)]]
    merged = parts.groupBy(*keys).agg(
        *(
            part.alias(f"keyspread_merged_{i}_{j}")
            for i, one in enumerate(wanted)
            for j, part in enumerate(_merged(one, f"keyspread_part_{i}"))
        )
    )
    return merged.select(
        *keys,
        *(
            _finished(one, f"keyspread_merged_{i}").cast(plain[one.name].dataType).alias(one.name)
            for i, one in enumerate(wanted)
        ),
    )


def _parsed(aggregates: Mapping[str, Any]) -> list[Aggregate]:
    if not isinstance(aggregates, Mapping) or not aggregates:
        raise InputError(
            f"aggregates must be a dict such as {{'total': 'sum(amount)'}} or an Operator, got {aggregates!r}"
        )
    found = []
    for name, what in aggregates.items():
        if not isinstance(what, str):
            raise InputError(f"aggregate {name!r} must be SQL text such as 'sum(amount)', got {what!r}")
        if "(" in what:
            found.append(parse(name, what))
        else:  # Spark's own way: {"amount": "sum"}
            argument = name if name == "*" else quoted(name)
            found.append(parse(f"{what}({'1' if name == '*' else name})", f"{what}({argument})"))
    return found


def _for_type(one: Aggregate, plain: StructType) -> Aggregate:
    exact = one.rule is RULES["avg"] and isinstance(plain[one.name].dataType, DecimalType)
    return replace(one, rule=EXACT_AVERAGE) if exact else one


def _parts(one: Aggregate) -> list[Column]:
    return [F.expr(part.format(*one.arguments)) for part in one.rule.parts]


def _merged(one: Aggregate, prefix: str) -> list[Column]:
    parts = {f"p{j}": f"{prefix}_{j}" for j in range(len(one.rule.parts))}
    return [F.expr(merged.format(*one.arguments, **parts)) for merged in one.rule.merged]


def _finished(one: Aggregate, prefix: str) -> Column:
    merged = {f"m{j}": f"{prefix}_{j}" for j in range(len(one.rule.merged))}
    return F.expr(one.rule.finished.format(*one.arguments, **merged))
