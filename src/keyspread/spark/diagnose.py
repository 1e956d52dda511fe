"""`diagnose`: which key of a DataFrame is skewed, by which values, and what to do about it."""

from collections.abc import Sequence

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql.types import AtomicType

from keyspread import checks
from keyspread.diagnosis.data_findings import KeyLoad, data_diagnosis
from keyspread.diagnosis.diagnosis import Diagnosis
from keyspread.errors import InputError
from keyspread.planned.packing import Aim, Counts, place
from keyspread.spark.job_description import described
from keyspread.spark.routing.keys import Key, KeyColumn, key_columns, key_texts
from keyspread.spark.routing.natural_load import NaturalLoad, natural_loads
from keyspread.threshold import checked_threshold


def diagnose(
    df: DataFrame,
    key: Key,
    workers: int | None = None,
    *,
    threshold: float | None = None,
    sample: float | None = None,
    seed: int = 0,
    title: str = "",
) -> Diagnosis:
    """Return how Spark's own hash partitioning would load `workers` partitions by this key, exactly, and its hot keys.

    All rows are counted in one scan; a second scan of a few hash buckets follows only if the first rows did not show
    all hot keys. With `sample` (a share of the rows) only that share is counted, and every share has an error, which
    the result names.

    Args:
        df: The rows, bounded.
        key: The name of a column, a Column, or a list of them.
        workers: The number of shuffle partitions, by default that of the session.
        threshold: The minimum share of a hot key, by default 1/(5·workers).
        sample: The share of the rows that is counted, by default all.
        seed: Chooses the sample.
        title: The title of the diagnosis.

    Returns:
        The diagnosis, which draws itself in a notebook and with `print`.

    Raises:
        InputError: An argument is wrong; the message names it, the value and the remedy.

    >>> from keyspread.spark import diagnose, session
    >>> rows = session().range(1000).selectExpr("if(id % 2 = 0, 0, id) AS customer")
    >>> found = diagnose(rows, "customer", workers=4).skew[0]
    >>> found.values[0]["key"], found.values[0]["rows"]
    ('0', 500)
    """
    return candidate_keys(df, [key], workers, threshold=threshold, sample=sample, seed=seed, title=title)


def candidate_keys(
    df: DataFrame,
    keys: Sequence[Key] | None = None,
    workers: int | None = None,
    *,
    threshold: float | None = None,
    sample: float | None = None,
    seed: int = 0,
    title: str = "",
) -> Diagnosis:
    """Return the diagnosis of several keys at once, the most skewed first: which of them is it? One scan for all.

    `keys` is a list of keys, each as in `diagnose`. None stands for every column of a simple type.

    >>> from keyspread.spark import session
    >>> rows = session().range(1000).selectExpr("if(id % 2 = 0, 0, id) AS customer", "id AS click")
    >>> candidate_keys(rows, workers=4).skew[0].columns
    ('customer',)
    """
    if df.isStreaming:
        raise InputError("diagnose needs a bounded DataFrame, got a stream: use it within foreachBatch, or StreamWatch")
    if workers is None:
        workers = int(df.sparkSession.conf.get("spark.sql.shuffle.partitions") or 200)
    workers = checks.whole_number("workers", workers, maximum=100_000)
    threshold = checked_threshold(threshold, workers)
    share = None if sample is None else checks.share("sample", sample)
    seed = checks.whole_number("seed", seed, minimum=0, maximum=2**63 - 1)
    columns = [key_columns(df, key) for key in (keys if keys is not None else _simple_columns(df))]
    rows = df if share is None else df.sample(fraction=share, seed=seed)
    names = [key_texts(key) for key in columns]
    with described(df.sparkSession, f"counting {', '.join('+'.join(name) for name in names)}"):
        counted = natural_loads(rows, columns, workers, threshold)
    loads = [_load(tuple(name), counts, workers) for name, counts in zip(names, counted, strict=True)]
    return data_diagnosis(title or "rows", loads, workers, share)


def _simple_columns(df: DataFrame) -> list[KeyColumn]:
    """Return the columns that people group by: no structs, arrays or maps, and no name that occurs twice."""
    names = [field.name for field in df.schema if isinstance(field.dataType, AtomicType)]
    columns: list[KeyColumn] = [name for name in names if df.columns.count(name) == 1]
    if not columns:
        raise InputError(f"no column can be a key; the columns are {', '.join(df.columns) or 'none'}")
    return columns


def _load(name: tuple[str, ...], counted: NaturalLoad, workers: int) -> KeyLoad:
    partitions = counted.partitions
    hot = tuple((value.hash, value.rows) for value in counted.hot)
    planned = place(Counts(counted.buckets, hot), Aim(workers))
    pieces = int(np.sum(planned.pieces.sizes)) if len(counted.hot) else 0
    return KeyLoad(
        columns=name,
        rows=counted.total,
        partitions=partitions,
        hot=tuple((value.text, value.rows) for value in counted.hot),
        planned=int(planned.loads.max(initial=0)),
        pieces=pieces,
    )
