"""`diagnose`: which keys are hot, counted and not guessed, and what spreading them would give."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import AtomicType

from keyspread import checks
from keyspread.checks import checked_threshold, least_hot_count
from keyspread.diagnosis.data_findings import KeyLoad, data_diagnosis
from keyspread.diagnosis.diagnosis import Diagnosis
from keyspread.diagnosis.stages.finding import Finding
from keyspread.errors import InputError
from keyspread.planned.packing import Aim, Counts, place
from keyspread.spark._engine.capabilities import described, quiet_analysis, to_arrow
from keyspread.spark._routing.keys import Key, KeyColumn, column, key_columns, key_hash, key_texts
from keyspread.spark._routing.plan_text import is_read_row_by_row
from keyspread.spark.watch import key_text

# The rows of every partition under Spark's own hash partitioning, and the hot keys, of several keys in one scan.
#
# Spark puts a row into partition `pmod(hash(key), n)`. Rows are counted by `pmod(hash(key), B·n)`: bucket b belongs to
# partition b mod n, so the loads are exact; and a key is in one bucket, so a bucket below the threshold has no hot key.
#
#     look: the first rows tell which values may be hot (candidates)
#     → count: one scan counts every candidate by itself, and all other rows by bucket, for all keys at once
#     → look again, only if needed: at the rows of buckets that are heavy enough to contain a hot key that was missed


_FINER = 64
_ROWS_OF_A_LOOK = 20_000
_MOST_CANDIDATES = 64
"""Values per key that are compared with every row; more hot keys than that are found by the second look."""


@dataclass(frozen=True)
class HotValue:
    """A hot key: its value as text (None for null), its hash and its rows."""

    text: str | None
    hash: int
    rows: int


@dataclass
class NaturalLoad:
    """The rows of one key: `buckets` without those of hot keys, which are in `hot`, hottest first."""

    buckets: npt.NDArray[np.int64]
    workers: int
    hot: list[HotValue] = field(default_factory=list)
    hot_buckets: dict[int, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Return the number of rows."""
        return int(self.buckets.sum()) + sum(value.rows for value in self.hot)

    @property
    def partitions(self) -> npt.NDArray[np.int64]:
        """Return the rows of every partition."""
        whole = self.buckets.copy()
        for value in self.hot:
            whole[self.hot_buckets[value.hash]] += value.rows
        summed: npt.NDArray[np.int64] = whole.reshape(-1, self.workers).sum(axis=0)
        return summed


def natural_loads(
    df: DataFrame, keys: Sequence[Sequence[KeyColumn]], workers: int, threshold: float
) -> list[NaturalLoad]:
    """Count the rows of every key under `pmod(hash(key), workers)`, and its hot keys; each key is a list of columns."""
    size = _FINER * workers
    rows = df.select(*(part for number, key in enumerate(keys) for part in _parts(df, number, key, size)))
    candidates = _look(rows, len(keys), threshold)
    counted = [NaturalLoad(np.zeros(size, np.int64), workers) for _ in keys]
    found: list[dict[int, tuple[int, int]]] = [{} for _ in keys]  # place of a candidate -> its bucket and rows
    for number, bucket, candidate, many in _count(rows, candidates):
        if candidate < 0:
            counted[number].buckets[bucket] += many
        else:
            found[number][candidate] = (bucket, many)
    for number, load in enumerate(counted):
        total = int(load.buckets.sum()) + sum(many for _, many in found[number].values())
        least = max(least_hot_count(threshold, total), 1)
        for candidate, (bucket, many) in found[number].items():
            text, hash_ = candidates[number][candidate]
            _put(load, HotValue(text, hash_, many), bucket, many >= least)
        heavy = np.flatnonzero(load.buckets >= least)
        for text, hash_, bucket, many in _look_again(rows, number, heavy, least):
            load.buckets[bucket] -= many
            _put(load, HotValue(text, hash_, many), bucket, True)
        load.hot.sort(key=lambda value: (-value.rows, value.hash))
    return counted


def _put(load: NaturalLoad, value: HotValue, bucket: int, hot: bool) -> None:
    if hot:
        load.hot.append(value)
        load.hot_buckets[value.hash] = bucket
    else:
        load.buckets[bucket] += value.rows


def _parts(df: DataFrame, number: int, key: Sequence[KeyColumn], size: int) -> list[Column]:
    """Return the bucket of a key under Spark's partitioning, its 64-bit hash, and its value."""
    columns = [column(df, part) for part in key]
    return [
        F.pmod(F.hash(*columns), F.lit(size)).alias(f"bucket{number}"),
        key_hash(df, key).alias(f"hash{number}"),
        key_text(df, key).alias(f"text{number}"),
    ]


def _look(rows: DataFrame, keys: int, threshold: float) -> list[list[tuple[str | None, int]]]:
    """Return the values that are frequent among the first rows, most frequent first, with their hashes."""
    if not is_read_row_by_row(rows):
        return [[] for _ in range(keys)]
    seen = to_arrow(rows.limit(_ROWS_OF_A_LOOK))
    found = []
    for number in range(keys):
        hashes = np.asarray(seen[f"hash{number}"], np.int64)
        distinct, first, many = np.unique(hashes, return_index=True, return_counts=True)
        often = np.flatnonzero((many > 1) & (many >= threshold / 3 * hashes.size))
        often = often[np.argsort(-many[often], kind="stable")][:_MOST_CANDIDATES]
        texts = seen[f"text{number}"]
        found.append([(texts[int(first[place])].as_py(), int(distinct[place])) for place in often])
    return found


def _count(rows: DataFrame, candidates: list[list[tuple[str | None, int]]]) -> list[tuple[int, int, int, int]]:
    """Return key, bucket, candidate (-1: none) and rows of every group, in one scan for all keys."""
    groups = []
    for number, values in enumerate(candidates):
        # As SQL text, because `array_position` takes no column before Spark 4.0.
        hashes = ", ".join(f"CAST({hash_} AS BIGINT)" for _, hash_ in values)
        place = F.expr(f"CAST(array_position(array({hashes}), hash{number}) AS INT) - 1" if values else "-1")
        groups.append(
            F.struct(F.lit(number).alias("key"), F.col(f"bucket{number}").alias("bucket"), place.alias("place"))
        )
    if len(groups) == 1:
        one = rows.select(groups[0].alias("one"))
    else:
        one = rows.select(F.explode(F.array(*groups)).alias("one"))
    table = to_arrow(one.select("one.*").groupBy("key", "bucket", "place").agg(F.count(F.lit(1)).alias("rows")))
    columns = [table[name].to_pylist() for name in ("key", "bucket", "place", "rows")]
    return list(zip(*columns, strict=True))


def _look_again(
    rows: DataFrame, number: int, heavy: npt.NDArray[np.int64], least: float
) -> list[tuple[str | None, int, int, int]]:
    """Return the hot keys in these buckets that the first look did not know. Reads nothing if there are none."""
    if not heavy.size:
        return []
    bucket, hash_, text = (f"{name}{number}" for name in ("bucket", "hash", "text"))
    table = to_arrow(
        rows.where(F.col(bucket).isin(heavy.tolist()))
        .groupBy(bucket, hash_)
        .agg(F.count(F.lit(1)).alias("rows"), F.first(text).alias("text"))
        .where(F.col("rows") >= least)
    )
    columns = [table[name].to_pylist() for name in ("text", hash_, bucket, "rows")]
    return list(zip(*columns, strict=True))


# `diagnose`: which key of a DataFrame is skewed, by which values, and what to do about it.


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


# From the log to the key: count the key columns that a log named in the data, to know the hot keys as values.


_WORKERS = 200
_Key = tuple[tuple[str, ...], tuple[str, ...]]
"""The columns of a key, and what they are in the data: two queries may give one name to different things."""


def with_values(diagnoses: Sequence[Diagnosis], df: DataFrame, *, sample: float | None = None) -> list[Diagnosis]:
    """Return the diagnoses with the hot keys of every finding of skew, as far as the data has its columns.

    A key that the job computed (`customer % 50`) is computed again. A key that cannot be found in the data gets a note.
    """
    asked = {(_key(finding), _workers(finding)) for diagnosis in diagnoses for finding in diagnosis.skew}
    values: dict[tuple[_Key, int], tuple[dict[str, Any], ...]] = {}
    missing: dict[_Key, str] = {}
    for workers in sorted({workers for _, workers in asked}):
        keys: dict[_Key, list[KeyColumn]] = {}
        for key in sorted(key for key, needed in asked if needed == workers):
            try:
                keys[key] = _in_data(df, *key)
            except InputError as error:
                missing[key] = str(error)
        if keys:
            # One scan for all keys with this number of partitions.
            different = {tuple(key_texts(columns)): columns for columns in keys.values()}
            counted = candidate_keys(df, list(different.values()), workers, sample=sample)
            by_name = {finding.keys: finding.values for finding in counted.findings}
            values |= {(key, workers): by_name[tuple(key_texts(columns))] for key, columns in keys.items()}
    return [_filled(diagnosis, values, missing) for diagnosis in diagnoses]


def _workers(finding: Finding) -> int:
    return finding.partitions or finding.tasks or _WORKERS


def _in_data(df: DataFrame, columns: Sequence[str], definitions: Sequence[str]) -> list[KeyColumn]:
    """Return the key as columns of the data: those that the job read, or what it computed of them.

    The name of a key column alone is not enough: the job may have given it to something else.
    """
    names = {name.lower() for name in df.columns}
    key: list[KeyColumn] = []
    for name, definition in zip(columns, definitions, strict=True):
        if not definition:
            raise InputError(
                f"{name!r} is not counted: the log does not show that it is a column as it was read, nor exactly how "
                "it is computed; keyspread diagnose DATA --key COLUMN counts a column of the data"
            )
        if definition.lower() in names:
            key.append(definition)
            continue
        try:
            with quiet_analysis():
                df.select(F.expr(definition))
        except AnalysisException:
            what = f"column {name!r}" if definition == name else f"{definition!r}, which {name!r} is made of"
            raise InputError(f"the data has no {what}; its columns are {', '.join(df.columns)}") from None
        key.append(F.expr(definition))
    return list(key_columns(df, key))


def _filled(
    diagnosis: Diagnosis, values: dict[tuple[_Key, int], tuple[dict[str, Any], ...]], missing: dict[_Key, str]
) -> Diagnosis:
    findings = tuple(
        replace(finding, values=values.get((_key(finding), _workers(finding)), finding.values))
        for finding in diagnosis.findings
    )
    notes = dict.fromkeys(missing[key] for key in map(_key, diagnosis.skew) if key in missing)
    return replace(diagnosis, findings=findings, notes=(*diagnosis.notes, *notes))


def _key(finding: Finding) -> _Key:
    return finding.columns, finding.definitions
