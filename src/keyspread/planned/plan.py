"""A plan: who gets what. Made by `planning.py`, carried out by `Plan.route` or by Spark SQL, kept as JSON."""

import json
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import accumulate
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
    """A hot key cut into pieces: a message whose turn (from its position) is below ends[i] goes to workers[i]."""

    hash: int
    workers: tuple[int, ...]
    weights: tuple[int, ...]
    ends: tuple[int, ...]

    @property
    def messages(self) -> int:
        """How many messages of the key were counted."""
        return sum(self.weights)

    @classmethod
    def by_weight(cls, key: int, pieces: Mapping[int, int]) -> "HotKey":
        """Cut in proportion to the weights: right on average for any batch like the one counted."""
        whole = sum(pieces.values())
        ends = tuple(done * planned_routing.TURNS // whole for done in accumulate(pieces.values()))
        return cls(key, tuple(pieces), tuple(pieces.values()), ends)


@dataclass(frozen=True, eq=False)
class Plan:
    """Gives every message a worker by its hash and its position alone: no state, the same on every attempt.

    `buckets` (worker of each hash bucket), `head` (hot keys, hottest first), `loads` (messages planned for each
    worker), `moved` (share of the messages whose worker did not have their bucket or hot key in the previous plan),
    `capacities` (of the workers, as multiples of their mean; None if they are equal).

    >>> from keyspread import plan
    >>> made = plan(np.array([7] * 90 + [8] * 10), workers=2)
    >>> made.loads.tolist(), len(made.head)
    ([50, 50], 2)
    >>> Plan.from_json(made.to_json()) == made
    True
    """

    workers: int
    buckets: npt.NDArray[np.int32]
    head: tuple[HotKey, ...]
    loads: npt.NDArray[np.int64]
    moved: float = field(default=0.0)
    capacities: tuple[float, ...] | None = None

    def route(self, hashes: npt.NDArray[Any], start: int = 0) -> npt.NDArray[np.int32]:
        """Give the worker of every message; hashes[0] stands at position `start` of the batch.

        Unknown keys go by their bucket. Routing a batch in parts gives the same workers as routing it whole.
        """
        keys = checks.hashes(hashes)
        start = checks.whole_number("start", start, minimum=0, maximum=2**62)
        out = np.empty(keys.size, np.int32)
        planned_routing.deal_out(keys, out, start, self.table)
        return out

    @cached_property
    def table(self) -> planned_routing.Deal:
        """The plan as arrays, for the kernel and for Spark SQL."""
        keys = np.array([key.hash for key in self.head], np.int64)
        owners = self.buckets.astype(np.int64)
        buckets, chain = owners.copy(), np.full(keys.size, -1, np.int64)
        for hot, bucket in enumerate(buckets_of(keys, owners.size).tolist()):
            if buckets[bucket] < 0:
                chain[hot] = -1 - buckets[bucket]
            buckets[bucket] = -1 - hot
        # About 16 cells a piece: then a cell lies within one piece fifteen times out of sixteen.
        bits = [min(16, 4 + (len(key.ends) - 1).bit_length()) for key in self.head]
        first = np.cumsum([0, *(len(key.workers) for key in self.head)], dtype=np.int64)
        return planned_routing.Deal(
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
        """Give the same plan with its hot keys cut at these turns."""
        head = tuple(replace(key, ends=tuple(ends)) for key, ends in zip(self.head, cuts, strict=True))
        return replace(self, head=head)

    @property
    def imbalance(self) -> float:
        """The imbalance that the plan leaves: the largest load (per capacity) as a share, minus 1/n."""
        return metrics.imbalance(self.loads, self.capacities)

    def __eq__(self, other: object) -> bool:
        """Two plans are equal if they route alike and were made for the same loads."""
        return isinstance(other, Plan) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        """Hash what `==` compares."""
        return hash(self.to_json())

    def __repr__(self) -> str:
        """Say in a line what the plan does."""
        return (
            f"Plan(workers={self.workers}, buckets={self.buckets.size}, hot keys={len(self.head)}, "
            f"messages={int(self.loads.sum())}, imbalance={self.imbalance:.2g}, moved={self.moved:.2g})"
        )

    def to_json(self) -> str:
        """Give the plan as JSON; `Plan.from_json` gives it back equal."""
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
        """Read a plan back; what is not one is refused."""
        try:
            content = json.loads(text)
            plan = cls._of(content) if content["format"] == _FORMAT else None
        except (ValueError, TypeError, KeyError, OverflowError) as problem:
            raise InputError(f"not a keyspread plan ({problem!r}); pass what Plan.to_json() gave") from None
        if plan is None:
            raise InputError(
                f"the plan has format {content['format']}, this keyspread reads {_FORMAT}: plan the batch anew"
            )
        plan._check()
        return plan

    @classmethod
    def _of(cls, content: dict[str, Any]) -> "Plan":
        """Make a plan of parsed JSON; whatever is not a whole number where one must be raises."""

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
        """Refuse what would route outside the workers."""
        named = [*self.buckets.tolist(), *(worker for key in self.head for worker in key.workers)]
        whole = all(
            key.ends and key.ends[-1] == planned_routing.TURNS and len(key.ends) == len(key.workers) == len(key.weights)
            for key in self.head
        )
        if self.capacities is not None:
            checks.capacities(self.capacities, self.workers)
        inside = self.buckets.size > 0 and min(named) >= 0 and max(named) < self.workers
        if not inside or self.loads.size != self.workers or not whole:
            raise InputError(f"the plan does not fit its {self.workers} workers; it was changed by hand, plan anew")


def _numbers(values: Any) -> tuple[float, ...] | None:
    return None if values is None else tuple(checks.number("a capacity", value) for value in values)


def buckets_of(keys: npt.NDArray[np.int64], buckets: int) -> npt.NDArray[np.int64]:
    """Give the bucket of every key."""
    out = np.empty(keys.size, np.int64)
    planned_routing.bucket_of(keys, out, buckets)
    return out


def _cells(ends: tuple[int, ...], bits: int, first: int) -> npt.NDArray[np.int32]:
    """Give, for each of 2^bits equal cells of turns, the piece that has all of it, or -1 - the first that has some."""
    edges = np.arange((1 << bits) + 1) << (31 - bits)
    begins_in = np.searchsorted(ends, edges[:-1], side="right")
    stops_in = np.searchsorted(ends, edges[1:] - 1, side="right")
    return np.where(begins_in == stops_in, begins_in + first, -1 - (begins_in + first)).astype(np.int32)
