"""`JoinPlan`: which keys of a join are hot, how they are cut, and what that costs. Is stored as JSON."""

import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from pyspark.sql import DataFrame

from keyspread import checks
from keyspread.checks import least_hot_count
from keyspread.errors import InputError
from keyspread.kernels.planned_routing import SLOTS
from keyspread.spark._joining.counting import MOST_OF_WHOLE_KEYS, HotCount, JoinCounts, Work, partitions_of
from keyspread.spark._joining.grid import Cut, Floats, Rows, ends_of, may_cut, place
from keyspread.spark._joining.keys import JoinKeys, Kind

Sides = tuple[str, ...]

_FORMAT = 1
_LEAST_GAIN = 1.05  # whole keys ÷ cut keys, by the work of the busiest worker: for less, nothing is cut
_HASH_OF_NULL = 42
_SHOWN = 20


@dataclass(frozen=True)
class HotJoinKey:
    """A hot key: its rows on either side, and its pieces.

    It has `len(left_shares)` × `len(right_shares)` pieces; `workers` has the worker of each, row by row.

    >>> from keyspread.spark import plan_join, session
    >>> clicks = session().range(1000).selectExpr("if(id % 2 = 0, 0, id) AS user", "id AS click")
    >>> users = session().range(1000).selectExpr("id AS user", "id % 7 AS country")
    >>> hot = plan_join(clicks.hint("merge"), users, "user", workers=4).hot[0]
    >>> hot.value, hot.left, hot.right, len(hot.workers) > 1
    (0, 500, 1, True)
    """

    value: Any
    left: int
    right: int
    left_shares: tuple[float, ...]
    right_shares: tuple[float, ...]
    workers: tuple[int, ...]
    fingerprint: int
    hash: int
    left_ends: tuple[int, ...] = ()
    """The slots at which its left parts end, by the positions of its rows; none if only shares are known."""
    right_ends: tuple[int, ...] = ()

    @property
    def pieces(self) -> tuple[int, int]:
        """The number of parts of its left and of its right rows."""
        return len(self.left_shares), len(self.right_shares)

    @property
    def copies(self) -> int:
        """The number of rows that are copied: each left row once for every right part but one, and vice versa."""
        return self.left * (len(self.right_shares) - 1) + self.right * (len(self.left_shares) - 1)


@dataclass(frozen=True)
class JoinPlan:
    """How a join is cut. The result is exact for any rows; the balance is that of the rows that were counted.

    - `on`: the names and the type of each pair of keys; `how`, `null_safe`, `has_condition`: what the plan is for
    - `hot`: the hot keys, those with most work first; the ones that are neither cut nor moved included
    - `tail`: the estimated work of all other keys in each partition
    - `nulls`: rows of either side that have no partner because of a null; `spread_nulls`: whether they are spread
    - `plain_because`: why the join is left to Spark, or None

    >>> from keyspread.spark import JoinPlan, plan_join, session
    >>> clicks = session().range(1000).selectExpr("if(id % 2 = 0, 0, id) AS user", "id AS click")
    >>> plan = plan_join(clicks.hint("merge"), clicks, "user", workers=4)
    >>> JoinPlan.from_json(plan.to_json()) == plan
    True
    """

    workers: int
    how: str
    on: tuple[tuple[str, str, str], ...]
    null_safe: bool = False
    has_condition: bool = False
    output_cost: float = 1.0
    hot: tuple[HotJoinKey, ...] = ()
    tail: tuple[float, ...] = ()
    nulls: tuple[int, int] = (0, 0)
    spread_nulls: tuple[bool, bool] = (False, False)
    plain_because: str | None = None
    for_any_rows: bool = True
    counted: tuple[DataFrame, DataFrame] | None = field(default=None, compare=False, repr=False)

    @property
    def kind(self) -> Kind:
        """The type of the join."""
        return Kind(self.how)

    @property
    def work(self) -> Work:
        """How the work of a key is computed."""
        return Work(self.kind, self.output_cost, self.has_condition)

    def cuts(self, side: str) -> bool:
        """Return whether rows of the "left" or the "right" side are cut or spread, so that each needs a number."""
        number = ("left", "right").index(side)
        return self.spread_nulls[number] or any(key.pieces[number] > 1 for key in self.hot)

    @property
    def copies(self) -> int:
        """The number of rows that are copied."""
        return sum(key.copies for key in self.hot)

    @cached_property
    def loads(self) -> Floats:
        """The expected work of each worker."""
        loads = self._around_hot_keys(self.spread_nulls)
        for key in self.hot:
            shares = np.outer(key.left_shares, key.right_shares)
            left = np.repeat(np.array(key.left_shares) * key.left, len(key.right_shares))
            right = np.tile(np.array(key.right_shares) * key.right, len(key.left_shares))
            whole = float(self.work.of_key(key.left, key.right))
            output = (whole - float(self.work.of_input(key.left, key.right))) * shares.ravel()
            if self.work.matches_once:
                right = np.minimum(right, 1)
            np.add.at(loads, list(key.workers), left + right + output)
        return loads

    @cached_property
    def loads_of_whole_keys(self) -> Floats:
        """The expected work of each partition if Spark's hash alone decides."""
        loads = self._around_hot_keys((False, False))
        own = _own_workers([key.hash for key in self.hot], self.workers)
        np.add.at(loads, own, self.work.of_key([key.left for key in self.hot], [key.right for key in self.hot]))
        return loads

    def _around_hot_keys(self, spread: tuple[bool, bool]) -> Floats:
        loads = np.array(self.tail or np.zeros(self.workers))
        preserved = self.kind.preserves_left, self.kind.preserves_right
        for rows, kept, even in zip(self.nulls, preserved, spread, strict=True):
            if kept and (even or len(self.on) > 1):
                loads += rows * (1 + self.output_cost) / self.workers
            elif kept:
                loads[_own_workers([_HASH_OF_NULL], self.workers)] += rows * (1 + self.output_cost)
        return loads

    @property
    def busiest(self) -> float:
        """The expected work of the busiest worker, as a multiple of the even work."""
        return _multiple(self.loads)

    @property
    def busiest_of_whole_keys(self) -> float:
        """The same for Spark's own join."""
        return _multiple(self.loads_of_whole_keys)

    def __str__(self) -> str:
        """Describe the plan, with its hottest keys."""
        keys = ", ".join(one if one == other else f"{one} = {other}" for one, other, _ in self.on)
        title = f"{self.how} join on {keys}, {self.workers} workers: "
        if self.plain_because is not None:
            return f"{title}left to Spark, {self.plain_because}"
        lines = [
            f"{title}{len(self.hot)} hot key{'s' * (len(self.hot) != 1)}, {self.copies:,} rows copied",
            f"busiest worker {self.busiest:.2f} x the even work, {self.busiest_of_whole_keys:.2f} x with whole keys",
        ]
        for side, rows, spread in zip(("left", "right"), self.nulls, self.spread_nulls, strict=True):
            if spread:
                lines.append(f"{rows:,} {side} rows with a null key are spread over all workers")
        table = [("key", "left rows", "right rows", "pieces", "copies")]
        for key in self.hot[:_SHOWN]:
            pieces = "whole" if key.pieces == (1, 1) else f"{key.pieces[0]} x {key.pieces[1]}"
            table.append((repr(key.value), f"{key.left:,}", f"{key.right:,}", pieces, f"{key.copies:,}"))
        if self.hot:
            widths = [max(map(len, column)) for column in zip(*table, strict=True)]
            for row in table:
                cells = [row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))]
                lines.append("  ".join(cells))
        if len(self.hot) > _SHOWN:
            lines.append(f"… and {len(self.hot) - _SHOWN} more")
        return "\n".join(lines)

    def to_json(self) -> str:
        """Return the plan as JSON text; `JoinPlan.from_json` reads it back, equal."""
        content = {name: getattr(self, name) for name in _STORED}
        return json.dumps({"format": _FORMAT, **content, "hot": [vars(key) for key in self.hot]})

    @classmethod
    def from_json(cls, text: str) -> "JoinPlan":
        """Read a plan from the text that `to_json` returned; refuse anything else."""
        try:
            content = json.loads(text)
            version = content["format"]
            plan = cls._of(content) if type(version) is int and version == _FORMAT else None
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError, AttributeError) as problem:
            raise InputError(
                f"not the plan of a join ({problem!r:.300}); pass the text that JoinPlan.to_json() returned"
            ) from None
        if plan is None:
            raise InputError(f"the plan has format {version!r:.100}, this keyspread reads {_FORMAT}: plan again")
        plan._check()
        return plan

    @classmethod
    def _of(cls, content: dict[str, Any]) -> "JoinPlan":
        hot = [
            HotJoinKey(
                value=tuple(key["value"]) if len(content["on"]) > 1 else key["value"],
                left=checks.whole_number("left", key["left"], minimum=0, maximum=2**62),
                right=checks.whole_number("right", key["right"], minimum=0, maximum=2**62),
                left_shares=tuple(checks.not_negative("a share", share) for share in key["left_shares"]),
                right_shares=tuple(checks.not_negative("a share", share) for share in key["right_shares"]),
                workers=tuple(checks.whole_number("a worker", worker, minimum=0) for worker in key["workers"]),
                fingerprint=checks.whole_number("fingerprint", key["fingerprint"], -(2**63), 2**63 - 1),
                hash=checks.whole_number("hash", key["hash"], -(2**31), 2**31 - 1),
                left_ends=tuple(checks.whole_number("an end", end, 0, SLOTS) for end in key["left_ends"]),
                right_ends=tuple(checks.whole_number("an end", end, 0, SLOTS) for end in key["right_ends"]),
            )
            for key in content["hot"]
        ]
        on = tuple((str(one), str(other), str(kind)) for one, other, kind in content["on"])
        nulls = [checks.whole_number("nulls", rows, minimum=0, maximum=2**62) for rows in content["nulls"]]
        spread = [bool(one) for one in content["spread_nulls"]]
        because = content["plain_because"]
        return cls(
            workers=checks.whole_number("workers", content["workers"]),
            how=Kind(content["how"]).value,
            on=on,
            null_safe=bool(content["null_safe"]),
            has_condition=bool(content["has_condition"]),
            output_cost=checks.not_negative("output_cost", content["output_cost"]),
            hot=tuple(hot),
            tail=tuple(checks.not_negative("tail", load) for load in content["tail"]),
            nulls=(nulls[0], nulls[1]),
            spread_nulls=(spread[0], spread[1]),
            plain_because=None if because is None else str(because),
            for_any_rows=bool(content["for_any_rows"]),
        )

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the DataFrames that were counted: they belong to a session."""
        return {**vars(self), "counted": None}

    def _check(self) -> None:
        """Refuse a plan that would route outside its workers, or that leaves rows of a key without a piece."""
        fits = len(self.tail) in (0, self.workers) and len({key.fingerprint for key in self.hot}) == len(self.hot)
        for key in self.hot:
            fits = fits and len(key.workers) == key.pieces[0] * key.pieces[1] > 0 and max(key.workers) < self.workers
            for shares, ends in ((key.left_shares, key.left_ends), (key.right_shares, key.right_ends)):
                fits = fits and abs(sum(shares) - 1) < 1e-6
                fits = fits and (
                    not ends or ([*ends] == sorted(ends) and len(ends) == len(shares) and ends[-1] == SLOTS)
                )
        if not fits:
            raise InputError(
                f"the plan does not fit its {self.workers} workers; it was changed by hand, plan the join again"
            )

    def placed(self, for_any_rows: bool, cut: Sides = ("left", "right")) -> "JoinPlan":
        """Return the same plan with other cuts of its hot keys, by rules that are exact for other rows too if wanted.

        Only the sides in `cut` are cut.
        """
        spread = self.spread_nulls[0] and "left" in cut, self.spread_nulls[1] and "right" in cut
        hot = _cut(self.hot, self._around_hot_keys(spread), self.work, for_any_rows, cut)
        return replace(self, hot=hot, spread_nulls=spread, for_any_rows=for_any_rows)

    def cut_only(self, sides: Sides, because: str) -> "JoinPlan":
        """Return the plan with cuts of these sides only, `because` others cannot be; plain if that gains too little."""
        made = self.placed(self.for_any_rows, sides)
        before, after = made.busiest_of_whole_keys, made.busiest
        if before < after * _LEAST_GAIN:
            why = f"its hot keys cannot be cut: {because}; the busiest worker has {before:.2f} x the even work"
            return replace(made, plain_because=why)
        return made


_STORED = [
    "workers",
    "how",
    "on",
    "null_safe",
    "has_condition",
    "output_cost",
    "tail",
    "nulls",
    "spread_nulls",
    "plain_because",
    "for_any_rows",
]


def plan_of_counts(
    counts: JoinCounts, keys: JoinKeys, work: Work, workers: int, threshold: float, for_any_rows: bool
) -> JoinPlan:
    """Return the plan for these counts; it is plain if cutting keys would gain too little."""
    kind = work.kind
    uncut = [
        HotJoinKey(_value(key, len(keys.pairs)), key.left, key.right, (1.0,), (1.0,), (0,), key.fingerprint, key.hash)
        for key in counts.hot
    ]
    total = float(counts.tail.sum()) + sum(float(work.of_key(key.left, key.right)) for key in counts.hot)
    of_nulls = [
        rows * (1 + work.cost) * kept
        for rows, kept in zip(counts.nulls, (kind.preserves_left, kind.preserves_right), strict=True)
    ]
    least = least_hot_count(threshold, total + sum(of_nulls))
    made = JoinPlan(
        workers=workers,
        how=kind.value,
        on=keys.names,
        null_safe=keys.null_safe,
        has_condition=work.has_condition,
        output_cost=work.cost,
        hot=tuple(uncut),
        tail=tuple(np.round(counts.tail, 3).tolist()),
        nulls=counts.nulls,
        spread_nulls=(of_nulls[0] >= max(least, 1), of_nulls[1] >= max(least, 1)),
        for_any_rows=for_any_rows,
    ).placed(for_any_rows)
    hot = [
        replace(
            key,
            left_ends=tuple(ends_of(key.left_shares, own.cells[0])),
            right_ends=tuple(ends_of(key.right_shares, own.cells[1])),
        )
        for key, own in zip(made.hot, counts.hot, strict=True)
    ]
    made = replace(made, hot=tuple(hot))
    before, after = made.busiest_of_whole_keys, made.busiest
    if before <= MOST_OF_WHOLE_KEYS or before < after * _LEAST_GAIN:
        why = f"no key is hot enough to matter: with whole keys the busiest worker has {before:.2f} x the even work"
        if made.hot and before > MOST_OF_WHOLE_KEYS:
            why = f"its hot keys cannot be cut: the busiest worker has {before:.2f} x the even work"
        return replace(made, plain_because=why)
    return made


def _cut(
    hot: tuple[HotJoinKey, ...], loads: Floats, work: Work, for_any_rows: bool, sides: Sides
) -> tuple[HotJoinKey, ...]:
    rows = []
    for key, own in zip(hot, _own_workers([key.hash for key in hot], loads.size), strict=True):
        left, right = may_cut(work.kind, work.has_condition, key.left, key.right, for_any_rows)
        rows.append(Rows(key.left, key.right, own, left and "left" in sides, right and "right" in sides))
    cuts: list[Cut] = place(loads, rows, work)[0]
    return tuple(
        replace(key, left_shares=cut.left, right_shares=cut.right, workers=cut.workers, left_ends=(), right_ends=())
        for key, cut in zip(hot, cuts, strict=True)
    )


def _own_workers(hashes: list[int], workers: int) -> list[int]:
    """Return where Spark's hash puts keys that have no salt of their own."""
    own: list[int] = partitions_of(np.array(hashes, np.int64), np.zeros(len(hashes), np.int64), workers).tolist()
    return own


def _multiple(loads: Floats) -> float:
    return float(loads.max() / loads.mean()) if loads.any() else 1.0


def _value(key: HotCount, columns: int) -> Any:
    """Return a key as JSON has it: one value, or a tuple if the key has several columns."""
    found = json.loads(key.value)
    values = [found.get(f"key_{number}") for number in range(columns)]  # JSON leaves out nulls
    return values[0] if columns == 1 else tuple(values)
