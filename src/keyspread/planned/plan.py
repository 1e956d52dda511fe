"""`Plan`: which worker gets which bucket and which piece of a hot key. Routes messages; is stored as JSON."""

import json
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.errors import InputError
from keyspread.evaluation import metrics
from keyspread.kernels import planned_routing

_FORMAT = 1


@dataclass(frozen=True)
class HotKey:
    """A hot key cut into pieces: the first piece whose end is above the slot of a message's position takes it.

    Piece i belongs to workers[i], takes the slots from ends[i - 1] to ends[i] - 1, and was planned for weights[i]
    messages.
    """

    hash: int
    workers: tuple[int, ...]
    weights: tuple[int, ...]
    ends: tuple[int, ...]

    @property
    def messages(self) -> int:
        """The number of messages of the key that were counted."""
        return sum(self.weights)

    @classmethod
    def by_weight(cls, key: int, pieces: Mapping[int, int]) -> "HotKey":
        """Cut in proportion to the weights, which is right on average for any batch like the counted one."""
        whole = sum(pieces.values())
        ends = tuple(done * planned_routing.SLOTS // whole for done in accumulate(pieces.values()))
        return cls(key, tuple(pieces), tuple(pieces.values()), ends)


@dataclass(frozen=True, eq=False)
class Plan:
    """Routes every message by its hash and its position alone: no state, the same worker on every attempt.

    - `buckets`: the worker of each hash bucket
    - `head`: the hot keys, hottest first
    - `loads`: the messages planned for each worker
    - `moved`: the share of the messages whose worker did not have their bucket or hot key in the previous plan
    - `capacities`: those of the workers, as multiples of their mean; None if they are equal

    >>> from keyspread import plan
    >>> table = plan(np.array([7] * 90 + [8] * 10), workers=2)
    >>> table.loads.tolist(), len(table.head)
    ([50, 50], 2)
    >>> Plan.from_json(table.to_json()) == table
    True
    """

    workers: int
    buckets: npt.NDArray[np.int32]
    head: tuple[HotKey, ...]
    loads: npt.NDArray[np.int64]
    moved: float = field(default=0.0)
    capacities: tuple[float, ...] | None = None

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
        keys = np.array([key.hash for key in self.head], np.int64)
        owners = self.buckets.astype(np.int64)
        buckets, chain = owners.copy(), np.full(keys.size, -1, np.int64)
        for hot, bucket in enumerate(buckets_of(keys, owners.size).tolist()):
            if buckets[bucket] < 0:
                chain[hot] = -1 - buckets[bucket]
            buckets[bucket] = -1 - hot
        # About 16 cells per piece: then fifteen of sixteen cells lie within one piece.
        bits = [min(16, 4 + (len(key.ends) - 1).bit_length()) for key in self.head]
        first = np.cumsum([0, *(len(key.workers) for key in self.head)], dtype=np.int64)
        return planned_routing.RoutingTable(
            buckets=buckets,
            owners=owners,
            keys=keys,
            chain=chain,
            first=first,
            ends=np.array([end for key in self.head for end in key.ends], np.int64),
            workers=np.array([worker for key in self.head for worker in key.workers], np.int64),
            cells=np.concatenate(
                [
                    np.empty(0, np.int32),
                    *(_cells(k.ends, b, f) for k, b, f in zip(self.head, bits, first, strict=False)),
                ]
            ),
            first_cell=np.cumsum([0, *(1 << b for b in bits)], dtype=np.int64),
            shift=31 - np.array(bits, np.int64),
        )

    def with_cuts(self, cuts: Sequence[Sequence[int]]) -> "Plan":
        """Return the same plan with its hot keys cut at these slots."""
        head = tuple(replace(key, ends=tuple(ends)) for key, ends in zip(self.head, cuts, strict=True))
        return replace(self, head=head)

    @property
    def imbalance(self) -> float:
        """The imbalance of the planned loads: the largest load (per capacity) as a share, minus 1/n."""
        return metrics.imbalance(self.loads, self.capacities)

    def __eq__(self, other: object) -> bool:
        """Return whether two plans route the same and were made for the same loads."""
        return isinstance(other, Plan) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        """Return a hash of what `==` compares."""
        return hash(self.to_json())

    def __repr__(self) -> str:
        """Describe the plan in one line."""
        return (
            f"Plan(workers={self.workers}, buckets={self.buckets.size}, hot keys={len(self.head)}, "
            f"messages={int(self.loads.sum())}, imbalance={self.imbalance:.2g}, moved={self.moved:.2g})"
        )

    def to_json(self) -> str:
        """Return the plan as JSON text; `Plan.from_json` reads it back, equal."""
        content = {
            "format": _FORMAT,
            "workers": self.workers,
            "buckets": self.buckets.tolist(),
            "head": [asdict(key) for key in self.head],
            "loads": self.loads.tolist(),
            "moved": self.moved,
            "capacities": self.capacities,
        }
        return json.dumps(content)

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        """Read a plan from the text that `to_json` returned; refuse anything else."""
        try:
            content = json.loads(text)
            plan = cls._of(content) if content["format"] == _FORMAT else None
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as problem:
            raise InputError(
                f"not a keyspread plan ({problem!r:.300}); pass the text that Plan.to_json() returned"
            ) from None
        if plan is None:
            raise InputError(
                f"the plan has format {content['format']!r:.100}, this keyspread reads {_FORMAT}: plan the batch again"
            )
        plan._check()
        return plan

    @classmethod
    def _of(cls, content: dict[str, Any]) -> "Plan":
        """Make a plan from parsed JSON; raise if a value is not a whole number where one is needed."""

        def whole(numbers: Iterable[Any]) -> tuple[int, ...]:
            return tuple(map(operator.index, numbers))

        return cls(
            workers=checks.whole_number("workers", content["workers"]),
            buckets=np.array(whole(content["buckets"]), np.int32),
            head=tuple(
                HotKey(
                    checks.whole_number("hash", key["hash"], minimum=-(2**63), maximum=2**63 - 1),
                    whole(key["workers"]),
                    whole(key["weights"]),
                    whole(key["ends"]),
                )
                for key in content["head"]
            ),
            loads=np.array(whole(content["loads"]), np.int64),
            moved=checks.number("moved", content["moved"]),
            capacities=_numbers(content.get("capacities")),
        )

    def _check(self) -> None:
        """Refuse a plan that would route outside its workers."""
        named = [*self.buckets.tolist(), *(worker for key in self.head for worker in key.workers)]
        whole = all(
            key.ends
            and key.ends[-1] == planned_routing.SLOTS
            and all(begin <= end for begin, end in pairwise((0, *key.ends)))
            and len(key.ends) == len(key.workers) == len(key.weights)
            and min(key.weights) >= 0
            for key in self.head
        )
        whole = whole and len({key.hash for key in self.head}) == len(self.head) and self.loads.min(initial=0) >= 0
        if self.capacities is not None:
            checks.capacities(self.capacities, self.workers)
        inside = self.buckets.size > 0 and min(named) >= 0 and max(named) < self.workers
        if not inside or self.loads.size != self.workers or not whole:
            raise InputError(
                f"the plan does not fit its {self.workers} workers; it was changed by hand, plan the batch again"
            )


def _numbers(values: Any) -> tuple[float, ...] | None:
    return None if values is None else tuple(checks.number("a capacity", value) for value in values)


def buckets_of(keys: npt.NDArray[np.int64], buckets: int) -> npt.NDArray[np.int64]:
    """Return the bucket of every key."""
    out = np.empty(keys.size, np.int64)
    planned_routing.bucket_of(keys, out, buckets)
    return out


def _cells(ends: tuple[int, ...], bits: int, first: int) -> npt.NDArray[np.int32]:
    """Return, for each of 2^bits equal cells of slots, the piece that covers it, or -1 - the first of several."""
    edges = np.arange((1 << bits) + 1) << (31 - bits)
    begins_in = np.searchsorted(ends, edges[:-1], side="right")
    stops_in = np.searchsorted(ends, edges[1:] - 1, side="right")
    return np.where(begins_in == stops_in, begins_in + first, -1 - (begins_in + first)).astype(np.int32)
