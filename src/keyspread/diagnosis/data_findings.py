"""From counted keys to findings: the load per partition, the hot keys as values, what spreading gives and costs."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from keyspread.diagnosis.diagnosis import Diagnosis
from keyspread.diagnosis.stages.finding import KEY_SKEW, Bars, Finding, Remedy, sort_findings

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
    natural_limit: int

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
    mean = load.rows / workers
    largest = int(load.partitions.max(initial=0))
    uneven = largest >= SKEWED * max(mean, _FEW_ROWS)
    # A key is to blame only if it is at least half of the partition that has far more than its share.
    skewed = uneven and bool(load.hot) and load.hot[0][1] >= largest / 2
    if uneven and not skewed:
        return _by_chance(load, workers)
    return Finding(
        kind=KEY_SKEW if skewed else EVEN,
        text=_text(load, workers, skewed),
        operator="partitioning" if skewed else "",
        keys=load.columns,
        columns=load.columns,
        load="rows",
        busiest=float(load.partitions.max(initial=0)),
        mean=mean,
        tasks=workers,
        adaptive=_adaptive(load) if skewed else "",
        remedies=_remedies(load, workers) if skewed else (),
        bars=_bars(load.partitions) if skewed else None,
        # Keys with less than half of an even share are hot for a plan, and no news for people.
        values=tuple(_value(text, rows, load.rows) for text, rows in load.hot[:_SHOWN] if rows >= mean / 2),
        planned=load.planned / mean if mean else 0.0,
    )


def _by_chance(load: KeyLoad, workers: int) -> Finding:
    """Return the finding of a key with few values of similar size: the hash puts several into one partition."""
    planned = load.planned * workers / load.rows
    return Finding(
        kind=FEW_KEYS,
        text=f"{_text(load, workers, True)}, by chance: no key is hot, but there are few keys per partition",
        keys=load.columns,
        columns=load.columns,
        load="rows",
        busiest=float(load.partitions.max(initial=0)),
        mean=load.rows / workers,
        tasks=workers,
        planned=planned,
        remedies=(
            Remedy(
                f"Use fewer partitions, or pack the keys by a plan ({planned:.2f} × its even share).",
                f"keyspread.spark.spread(df, {_literal(load.columns)}, workers={workers})",
            ),
        ),
    )


def _text(load: KeyLoad, workers: int, skewed: bool) -> str:
    name = ", ".join(load.columns)
    if not load.rows:
        return f"{name}: no rows"
    measured = f"{name}: the busiest of {workers} partitions has {load.busiest:.2f} × its even share"
    return measured if skewed else f"{measured}. You need nothing"


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


def _remedies(load: KeyLoad, workers: int) -> tuple[Remedy, ...]:
    keys = _literal(load.columns)
    gain = f"{load.busiest:.1f} × → {load.planned * workers / load.rows:.2f} × its even share"
    found = []
    if load.hot and load.hot[0][0] is None and load.hot[0][1] >= load.rows / workers:
        found.append(
            Remedy(
                "The hottest key is null. Nulls match nothing in an inner join: drop them before it, if no other "
                "operator needs them.",
                f"df.dropna(subset={json.dumps(list(load.columns), ensure_ascii=False)})",
            )
        )
    many = f"{len(load.hot)} hot key{'s are' if len(load.hot) > 1 else ' is'}"
    cost = f"{many} cut into {load.pieces} pieces, and the key column is read once more to count"
    found.append(Remedy(f"Spread the rows: {gain}; {cost}.", f"keyspread.spark.spread(df, {keys}, workers={workers})"))
    found.append(Remedy("in a join by this key:", f"keyspread.spark.join(left, right, on={keys})"))
    found.append(
        Remedy("instead of applyInPandas:", f"keyspread.spark.aggregate(df, {keys}, MyOperator(), workers={workers})")
    )
    found.append(Remedy("nothing, for count, sum and other SQL aggregates: Spark folds them before the shuffle."))
    return tuple(found)


def _literal(columns: Sequence[str]) -> str:
    quoted = [json.dumps(name, ensure_ascii=False) for name in columns]
    return quoted[0] if len(quoted) == 1 else f"[{', '.join(quoted)}]"


def _bars(partitions: npt.NDArray[np.int64], most: int = 200) -> Bars:
    kept = np.arange(len(partitions))
    if len(partitions) > most:
        busiest = np.argsort(-partitions, kind="stable")[: most // 4]
        kept = np.union1d(busiest, np.linspace(0, len(partitions) - 1, most - len(busiest)).astype(np.int64))
    rows = tuple(float(value) for value in partitions[kept])
    return Bars(rows, rows, len(partitions) - len(kept), unit="rows")
