"""`aggregate`: partial states on the workers, merged by key, equal to the plain answer."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType

from keyspread.errors import InputError
from keyspread.operators import Operator
from keyspread.spark.keys import Key, column, key_columns, quoted
from keyspread.spark.operate import run_operator
from keyspread.spark.parts import RULES, Aggregate, exact_average, parse
from keyspread.spark.route import with_worker

Aggregates = Mapping[str, Any] | Operator[Any]

_SHORT = {"mean": "avg", "average": "avg", "std": "stddev", "size": "count"}  # as DataFrame.agg reads {"amount": …}


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
    if df.isStreaming:
        raise InputError(
            "aggregate needs a bounded DataFrame, got a stream: aggregate each micro-batch in foreachBatch, "
            "or spread the stream and put your own stateful operator behind it"
        )
    names = key_columns(df, key)
    if isinstance(aggregates, Operator):
        routed, worker = with_worker(df, key, workers, scheme, **options)
        return run_operator(routed.repartitionById(workers, worker).drop(worker), names, aggregates)
    wanted = _parsed(aggregates)
    grouped = df.groupBy(*(column(df, name) for name in names))
    plain = grouped.agg(*(_plain(one) for one in wanted)).schema.fields  # only looked at, never run
    keys, results = plain[: len(names)], plain[len(names) :]
    wanted = [_for_type(one, field.dataType) for one, field in zip(wanted, results, strict=True)]
    routed, worker = with_worker(df, key, workers, scheme, **options)
    moved = routed.repartitionById(workers, worker)
    # Our own names from here on: of the user's, two may be the same. Grouped by the worker too, Spark sees that
    # the rows already lie right: no further exchange.
    own = [f"keyspread_key_{i}" for i in range(len(names))]
    parts = moved.groupBy(worker, *(column(df, name).alias(key) for name, key in zip(names, own, strict=True))).agg(
        *(part.alias(f"keyspread_part_{i}_{j}") for i, one in enumerate(wanted) for j, part in enumerate(_parts(one)))
    )
    merged = parts.groupBy(*own).agg(
        *(
            part.alias(f"keyspread_merged_{i}_{j}")
            for i, one in enumerate(wanted)
            for j, part in enumerate(_merged(one, f"keyspread_part_{i}"))
        )
    )
    return merged.select(
        *(F.col(key).alias(field.name) for key, field in zip(own, keys, strict=True)),
        *(
            _finished(one, f"keyspread_merged_{i}").cast(field.dataType).alias(field.name)
            for i, (one, field) in enumerate(zip(wanted, results, strict=True))
        ),
    )


def _parsed(aggregates: Mapping[str, Any]) -> list[Aggregate]:
    if not isinstance(aggregates, Mapping) or not aggregates:
        remedy = f"; make one: {aggregates.__name__}()" if isinstance(aggregates, type) else ""
        raise InputError(
            f"aggregates must be a dict such as {{'total': 'sum(amount)'}} or an Operator, got {aggregates!r}{remedy}"
        )
    found = []
    for name, what in aggregates.items():
        if not isinstance(what, str):
            raise InputError(f"aggregate {name!r} must be SQL text such as 'sum(amount)', got {what!r}")
        if "(" in what:
            found.append(parse(name, what))
        else:  # Spark's own way: {"amount": "sum"}
            function = _SHORT.get(what.strip().lower(), what)
            found.append(replace(parse(name, f"{function}({'1' if name == '*' else quoted(name)})"), name=None))
    return found


def _plain(one: Aggregate) -> Column:
    return F.expr(one.plain) if one.name is None else F.expr(one.plain).alias(one.name)


def _for_type(one: Aggregate, kind: DataType) -> Aggregate:
    if one.rule is RULES["avg"] and isinstance(kind, DecimalType):
        return replace(one, rule=exact_average(kind.precision, kind.scale))
    return one


def _parts(one: Aggregate) -> list[Column]:
    return [F.expr(part.format(*one.arguments)) for part in one.rule.parts]


def _merged(one: Aggregate, prefix: str) -> list[Column]:
    parts = {f"p{j}": f"{prefix}_{j}" for j in range(len(one.rule.parts))}
    return [F.expr(merged.format(*one.arguments, **parts)) for merged in one.rule.merged]


def _finished(one: Aggregate, prefix: str) -> Column:
    merged = {f"m{j}": f"{prefix}_{j}" for j in range(len(one.rule.merged))}
    return F.expr(one.rule.finished.format(*one.arguments, **merged))
