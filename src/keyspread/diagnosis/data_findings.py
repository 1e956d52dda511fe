"""From counted keys to findings: the load per partition, the hot keys as values, what spreading gives and costs."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from keyspread.diagnosis.diagnosis import Diagnosis
from keyspread.diagnosis.stages.finding import KEY_SKEW, Bars, Finding, Remedy, sort_findings
from keyspread.diagnosis.stages.findings import task_bars
from keyspread.diagnosis.stages.keys import listed, quoted_text

NULL = "null (no value)"
EVEN = "even"
FEW_KEYS = "few-keys"
SKEWED = 1.5
"""Busiest partition as a multiple of its even share from which a key counts as skewed."""
_FEW_ROWS = 4  # per partition: with fewer, chance alone makes partitions of several times the mean
_SHOWN = 10
_SPLIT_BYTES, _SPLIT_FACTOR = 256 * 2**20, 5


@dataclass(frozen=True)
class KeyLoad:
    """The counts of one key: rows per partition, hot keys (text, rows), and what a plan would make of them."""

    columns: tuple[str, ...]
    rows: int
    partitions: npt.NDArray[np.int64]
    hot: tuple[tuple[str | None, int], ...]
    planned: int
    """Rows of the busiest worker if the rows are spread by a plan."""
    pieces: int
    """Parts that a plan cuts the hot keys into, all together."""

    @property
    def busiest(self) -> float:
        """Return the load of the busiest partition as a multiple of its even share."""
        return float(self.partitions.max(initial=0)) * len(self.partitions) / self.rows if self.rows else 0.0


def data_diagnosis(title: str, loads: Sequence[KeyLoad], workers: int, sample: float | None) -> Diagnosis:
    """Return the diagnosis of several keys of one table."""
    notes = []
    rows = loads[0].rows if loads else 0
    if sample is not None:
        # Two standard deviations of a share of one half, the least certain one.
        error = 1 / math.sqrt(rows) if rows else 1.0
        notes.append(f"counted in a sample of {sample:g} of the rows: a share is off by up to {100 * error:.2g} points")
    if not rows:
        notes.append("there are no rows: nothing to diagnose")
    return Diagnosis(
        title=title,
        facts={"source": "data", "rows": rows, "workers": workers, "sample": sample},
        findings=sort_findings([_finding(load, workers) for load in loads]),
        notes=tuple(notes),
    )


def _finding(load: KeyLoad, workers: int) -> Finding:
    mean, largest = load.rows / workers, int(load.partitions.max(initial=0))
    planned = load.planned / mean if mean else 0.0
    uneven = largest >= SKEWED * max(mean, _FEW_ROWS)
    measured = f"the busiest of {workers} partitions has {load.busiest:.2f} × its even share"
    text = f"{', '.join(load.columns)}: {measured if load.rows else 'no rows'}"
    finding = Finding(
        kind=EVEN,
        text=text if uneven or not load.rows else f"{text}. You need nothing",
        keys=load.columns,
        columns=load.columns,
        load="rows",
        busiest=float(largest),
        mean=mean,
        tasks=workers,
        # Keys with less than half of an even share are hot for a plan, and no news for people.
        values=tuple(_value(key, rows, load.rows) for key, rows in load.hot[:_SHOWN] if rows >= mean / 2),
        planned=planned,
    )
    if not uneven:
        return finding
    # A key is to blame only if it is at least half of the partition that has far more than its share.
    if load.hot and load.hot[0][1] >= largest / 2:
        bars, fixes = _bars(load.partitions), tuple(_remedies(load, workers))
        return replace(
            finding, kind=KEY_SKEW, operator="partitioning", adaptive=_adaptive(load), remedies=fixes, bars=bars
        )
    fix = Remedy(
        f"Use fewer partitions, or pack the keys by a plan ({planned:.2f} × its even share).",
        _spread(load.columns, workers),
    )
    chance = f"{text}, by chance: no key is hot, but there are few keys per partition"
    return replace(finding, kind=FEW_KEYS, text=chance, values=(), remedies=(fix,))


def _value(text: str | None, rows: int, total: int) -> dict[str, Any]:
    return {"key": NULL if text is None else text, "null": text is None, "rows": rows, "share": rows / total}


def _adaptive(load: KeyLoad) -> str:
    """Return what adaptive execution would do: it knows bytes, we know rows."""
    busiest, median = int(load.partitions.max()), float(np.median(load.partitions))
    only = "it splits only joins, never groupBy, windows, applyInPandas or writes"
    if median and busiest <= _SPLIT_FACTOR * median:
        return f"no help: {busiest / median:.1f} × the median < {_SPLIT_FACTOR} ×; {only}"
    needed = math.ceil(_SPLIT_BYTES / busiest)
    return f"splits a join only if a row has over {needed:,} bytes in the shuffle (256 MB per partition); {only}"


def _remedies(load: KeyLoad, workers: int) -> Iterator[Remedy]:
    keys = listed([quoted_text(name) for name in load.columns])
    if load.hot[0][0] is None and load.hot[0][1] >= load.rows / workers:
        yield Remedy(
            "The hottest key is null. Nulls match nothing in an inner join: drop them before it, if no other operator "
            "needs them.",
            f"df.dropna(subset={json.dumps(list(load.columns), ensure_ascii=False)})",
        )
    gain = f"{load.busiest:.1f} × → {load.planned * workers / load.rows:.2f} × its even share"
    many = f"{len(load.hot)} hot key{'s are' if len(load.hot) > 1 else ' is'}"
    cost = f"{many} cut into {load.pieces} pieces, and the key column is read once more to count"
    yield Remedy(f"Spread the rows: {gain}; {cost}.", _spread(load.columns, workers))
    yield Remedy("in a join by this key:", f"keyspread.spark.join(left, right, on={keys})")
    aggregate = f"keyspread.spark.aggregate(df, {keys}, MyOperator(), workers={workers})"
    yield Remedy("instead of applyInPandas:", aggregate)
    yield Remedy("nothing, for count, sum and other SQL aggregates: Spark folds them before the shuffle.")


def _spread(columns: Sequence[str], workers: int) -> str:
    return f"keyspread.spark.spread(df, {listed([quoted_text(name) for name in columns])}, workers={workers})"


def _bars(partitions: npt.NDArray[np.int64]) -> Bars:
    rows = partitions.astype(np.float64)
    return replace(task_bars(rows, rows, np.arange(len(rows))), unit="rows")
