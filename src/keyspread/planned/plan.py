"""The hot keys of a plan. They are stored as arrays, because a plan may have tens of thousands of them."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, chain
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.drawing.picture import Drawn, Picture, Table, of_loads
from keyspread.errors import InputError
from keyspread.kernels import planned_routing


@dataclass(frozen=True)
class HotKey:
    """A hot key cut into pieces: the first piece whose end is above the slot of a message's position takes it.

    Piece i belongs to workers[i], takes the slots from ends[i - 1] to ends[i] - 1, and was planned for weights[i]
    messages.

    >>> import keyspread as ks
    >>> hot = ks.plan(ks.hash_keys(["hot"] * 30 + list("abcdefghij")), workers=4).head[0]
    >>> hot.workers, hot.weights
    ((2, 3, 0, 1), (8, 8, 7, 7))
    """

    hash: int
    workers: tuple[int, ...]
    weights: tuple[int, ...]
    ends: tuple[int, ...]

    @property
    def messages(self) -> int:
        """The number of messages of the key that were counted."""
        return sum(self.weights)


@dataclass(frozen=True, eq=False, repr=False)
class Head(Sequence[HotKey]):
    """Hot keys, hottest first: a read-only sequence of `HotKey`. The pieces of key k are first[k] … first[k + 1] - 1.

    >>> head = Head.of([HotKey(7, workers=(0, 1), weights=(30, 10), ends=(3 * 2**29, 2**31))])
    >>> head[0].workers, head.ends.tolist() == [3 * 2**29, 2**31]
    ((0, 1), True)
    """

    hashes: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]
    workers: npt.NDArray[np.int32]
    weights: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    @classmethod
    def of(cls, keys: Iterable[HotKey]) -> "Head":
        """Return these hot keys as arrays."""
        keys = tuple(keys)
        sizes = np.array([0, *(len(key.workers) for key in keys)], np.int64)
        return cls(
            hashes=np.array([key.hash for key in keys], np.int64),
            first=np.cumsum(sizes),
            workers=np.array([*chain.from_iterable(key.workers for key in keys)], np.int32),
            weights=np.array([*chain.from_iterable(key.weights for key in keys)], np.int64),
            ends=np.array([*chain.from_iterable(key.ends for key in keys)], np.int64),
        )

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """The number of pieces of each key, which is the number of its workers."""
        return np.diff(self.first)

    @property
    def messages(self) -> npt.NDArray[np.int64]:
        """The number of messages of each key."""
        done = np.concatenate([[0], np.cumsum(self.weights)])
        return np.diff(done[self.first])

    def __len__(self) -> int:
        """Return the number of hot keys."""
        return self.hashes.size

    @overload
    def __getitem__(self, at: int) -> HotKey: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[HotKey, ...]: ...

    def __getitem__(self, at: int | slice) -> HotKey | tuple[HotKey, ...]:
        """Return one hot key, or a tuple of several."""
        if isinstance(at, slice):
            return tuple(self[number] for number in range(*at.indices(len(self))))
        number = range(len(self))[at]
        begin, end = self.first[number : number + 2].tolist()
        pieces = (column[begin:end].tolist() for column in (self.workers, self.weights, self.ends))
        return HotKey(int(self.hashes[number]), *map(tuple, pieces))

    def __iter__(self) -> Iterator[HotKey]:
        """Return all hot keys, hottest first."""
        first, hashes = self.first.tolist(), self.hashes.tolist()
        workers, weights, ends = self.workers.tolist(), self.weights.tolist(), self.ends.tolist()
        for key, begin, end in zip(hashes, first, first[1:], strict=False):
            yield HotKey(key, tuple(workers[begin:end]), tuple(weights[begin:end]), tuple(ends[begin:end]))

    def __eq__(self, other: object) -> bool:
        """Return whether the other sequence has equal hot keys in the same order."""
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __hash__(self) -> int:
        """Return a hash of what `==` compares."""
        return hash(tuple(self))

    def __repr__(self) -> str:
        """Show all hot keys."""
        return repr(tuple(self))


# `Plan`: which worker gets which bucket and which piece of a hot key. Routes messages; is stored as JSON.


_FORMAT = 1
_SHOWN = 10


@dataclass(frozen=True, eq=False)
class Plan(Drawn):
    """Routes every message by its hash and its position alone: no state, the same worker on every attempt.

    - `buckets`: the worker of each hash bucket
    - `head`: the hot keys, hottest first
    - `loads`: the messages planned for each worker
    - `moved`: the share of the messages whose worker did not have their bucket or hot key in the previous plan

    >>> from keyspread import plan
    >>> table = plan(np.array([7] * 90 + [8] * 10), workers=2)
    >>> table.loads.tolist(), len(table.head)
    ([50, 50], 2)
    >>> Plan.from_json(table.to_json()) == table
    True
    """

    workers: int
    buckets: npt.NDArray[np.int32]
    head: Sequence[HotKey]
    loads: npt.NDArray[np.int64]
    moved: float = 0.0

    @cached_property
    def pieces(self) -> Head:
        """The hot keys as arrays."""
        return self.head if isinstance(self.head, Head) else Head.of(self.head)

    def route(self, hashes: npt.NDArray[Any], start: int = 0) -> npt.NDArray[np.int32]:
        """Return the worker of every message; hashes[0] is at position `start` of the batch.

        Keys that the plan does not know are routed by their bucket. Routing a batch in parts gives the same workers
        as routing it whole.
        """
        keys = checks.hashes(hashes)
        start = checks.whole_number("start", start, minimum=0, maximum=2**62)
        out = np.empty(keys.size, np.int32)
        planned_routing.route_by_plan(keys, out, start, self.table)
        return out

    @cached_property
    def table(self) -> planned_routing.RoutingTable:
        """The plan as arrays, for the kernel and for Spark SQL."""
        head, owners = self.pieces, self.buckets.astype(np.int64)
        buckets, chain_ = chained(head.hashes, owners)
        # About 16 cells per piece: then fifteen of sixteen cells lie within one piece.
        bits = np.minimum(16, 4 + np.searchsorted(1 << np.arange(12), head.sizes))
        first_cell = np.concatenate([[0], np.cumsum(1 << bits)])
        shift = planned_routing.SLOT_BITS - bits
        cells = np.empty(first_cell[-1], np.int32)
        planned_routing.fill_cells(head.first, head.ends, first_cell, shift, cells)
        return planned_routing.RoutingTable(
            buckets=buckets,
            owners=owners,
            keys=head.hashes,
            chain=chain_,
            first=head.first,
            ends=head.ends,
            workers=head.workers.astype(np.int64),
            cells=cells,
            first_cell=first_cell,
            shift=shift,
        )

    def with_ends(self, ends: npt.NDArray[np.int64]) -> "Plan":
        """Return the same plan with its pieces cut at these slots, which are those of all hot keys in a row."""
        return replace(self, head=replace(self.pieces, ends=ends))

    @property
    def imbalance(self) -> float:
        """The imbalance of the planned loads: the largest load as a share, minus 1/n; 0 without any."""
        total = self.loads.sum()
        return float(self.loads.max() / total - 1 / self.workers) if total else 0.0

    def __eq__(self, other: object) -> bool:
        """Return whether two plans route the same and were made for the same loads."""
        return isinstance(other, Plan) and self._compared == other._compared

    def __hash__(self) -> int:
        """Return a hash of what `==` compares."""
        return hash(self._compared)

    @property
    def _compared(self) -> tuple[Any, ...]:
        head = self.pieces
        arrays = (self.buckets, self.loads, head.hashes, head.first, head.workers, head.weights, head.ends)
        return self.workers, self.moved, *(array.tobytes() for array in arrays)

    def __repr__(self) -> str:
        """Describe the plan in one line."""
        return (
            f"Plan(workers={self.workers}, buckets={self.buckets.size}, hot keys={len(self.head)}, "
            f"messages={int(self.loads.sum())}, imbalance={self.imbalance:.2g}, moved={self.moved:.2g})"
        )

    def picture(self) -> Picture:
        """Return the planned load of every worker, that of hot keys within it, and the hottest keys."""
        head, total = self.pieces, max(1, int(self.loads.sum()))
        hot = np.bincount(head.workers, weights=head.weights, minlength=self.workers)
        hottest = [
            (str(key.hash), f"{100 * sum(key.weights) / total:.2f} %", f"{len(key.workers):,}")
            for key, _ in zip(head, range(_SHOWN), strict=False)
        ]
        facts = f"{int(self.loads.sum()):,} messages, {len(head):,} hot keys, {self.buckets.size:,} buckets"
        return Picture(
            f"Plan for {self.workers:,} workers",
            f"{facts}, {100 * self.moved:.2g} % moved" if self.moved else facts,
            [
                of_loads("messages", self.loads.tolist(), np.minimum(hot, self.loads).tolist()),
                *([Table(("hottest keys (hash)", "share", "workers"), hottest)] if hottest else []),
            ],
        )

    def to_json(self) -> str:
        """Return the plan as JSON text; `Plan.from_json` reads it back, equal."""
        content = {
            "format": _FORMAT,
            "workers": self.workers,
            "buckets": self.buckets.tolist(),
            "head": [
                {"hash": key.hash, "workers": key.workers, "weights": key.weights, "ends": key.ends}
                for key in self.pieces
            ],
            "loads": self.loads.tolist(),
            "moved": self.moved,
        }
        return json.dumps(content)

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        """Read a plan from the text that `to_json` returned; refuse anything else."""
        try:
            content = json.loads(text)
            version = content["format"]
            plan = cls._of(content) if type(version) is int and version == _FORMAT else None
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as problem:
            raise InputError(
                f"not a keyspread plan ({problem!r:.300}); pass the text that Plan.to_json() returned"
            ) from None
        if plan is None:
            raise InputError(
                f"the plan has format {version!r:.100}, this keyspread reads {_FORMAT}: plan the batch again"
            )
        plan._check()
        return plan

    @classmethod
    def _of(cls, content: dict[str, Any]) -> "Plan":
        """Make a plan from parsed JSON; raise if a value is not a whole number where one is needed."""
        keys = content["head"]
        sizes = [len(key["workers"]) for key in keys]
        if any(not len(key["weights"]) == len(key["ends"]) == size > 0 for key, size in zip(keys, sizes, strict=True)):
            raise ValueError("a hot key needs one weight and one end per worker")
        return cls(
            workers=checks.whole_number("workers", content["workers"]),
            buckets=_whole(content["buckets"], np.int32),
            head=Head(
                hashes=_whole((key["hash"] for key in keys), np.int64),
                first=np.array([0, *accumulate(sizes)], np.int64),
                workers=_whole(chain.from_iterable(key["workers"] for key in keys), np.int32),
                weights=_whole(chain.from_iterable(key["weights"] for key in keys), np.int64),
                ends=_whole(chain.from_iterable(key["ends"] for key in keys), np.int64),
            ),
            loads=_whole(content["loads"], np.int64),
            moved=checks.number("moved", content["moved"]),
        )

    def _check(self) -> None:
        """Refuse a plan that would route outside its workers."""
        head = self.pieces
        named = np.concatenate([self.buckets, head.workers])
        inside = self.buckets.size > 0 and named.min() >= 0 and named.max() < self.workers
        first = np.zeros(head.ends.size, bool)  # whether a piece is the first of its key
        first[head.first[:-1]] = True
        begins = np.where(first, 0, np.roll(head.ends, 1))
        whole = (head.ends[head.first[1:] - 1] == planned_routing.SLOTS).all() and (begins <= head.ends).all()
        whole = whole and min(head.weights.min(initial=0), self.loads.min(initial=0)) >= 0
        whole = whole and np.unique(head.hashes).size == len(head)
        if not inside or self.loads.size != self.workers or not whole:
            raise InputError(
                f"the plan does not fit its {self.workers} workers; it was changed by hand, plan the batch again"
            )


def _whole(numbers: Iterable[Any], kind: type[np.int32] | type[np.int64]) -> npt.NDArray[Any]:
    """Return an array of whole numbers; raise if one is anything else, such as true, or does not fit."""
    values = [*numbers]
    if not {*map(type, values)} <= {int}:
        raise ValueError(f"{next(value for value in values if type(value) is not int)!r:.100} is not a whole number")
    return np.array(values, kind)


def chained(
    hashes: npt.NDArray[np.int64], owners: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the entry of each bucket, its owner or -1 - its last hot key, and for each hot key the one before it.

    So hot keys of the same bucket form a chain, which ends with -1.
    """
    bucket = buckets_of(hashes, owners.size)
    order = np.argsort(bucket, kind="stable")
    before = np.full(hashes.size, -1, np.int64)
    same = np.flatnonzero(bucket[order[1:]] == bucket[order[:-1]])
    before[order[same + 1]] = order[same]
    buckets = owners.copy()
    np.minimum.at(buckets, bucket, -1 - np.arange(hashes.size))
    return buckets, before


def buckets_of(keys: npt.NDArray[np.int64], buckets: int) -> npt.NDArray[np.int64]:
    """Return the bucket of every key."""
    out = np.empty(keys.size, np.int64)
    planned_routing.bucket_of(keys, out, buckets)
    return out
