"""The simulator: one stream, dealt round robin to s senders, and what came of it. In-process, no engine.

A stretch of messages is routed, tallied and forgotten: beside the stream itself, memory is one bit for each key and
worker.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.errors import InputError
from keyspread.evaluation import metrics
from keyspread.kernels.balance import words_for
from keyspread.kernels.tally import count_bits, tally
from keyspread.online.sender import Sender
from keyspread.peers import Peer
from keyspread.planned.look_ahead import Memory, common_plan, deal
from keyspread.planned.plan import Plan
from keyspread.planned.planner import plan
from keyspread.schemes import Kind, resolve
from keyspread.streams.encoded import Encoded
from keyspread.threshold import checked_threshold, least_hot_count

_CHUNK = 1 << 18  # messages routed at once: their hashes and workers stay in the cache until they are tallied

_UNWEIGHED = np.empty(0, np.int64)
_Weights = npt.NDArray[np.int64] | None


@dataclass(frozen=True)
class Simulation:
    """What a scheme did to a stream. Loads are messages, or their weights; imbalances are shares, per capacity."""

    scheme: str
    workers: int
    sources: int
    seed: int
    messages: int
    keys: int
    threshold: float
    imbalance: float
    """I at the end of the stream: largest share of a worker - 1/n."""
    mean_imbalance: float
    """Mean of I(t) at the window ends."""
    windowed_imbalance: float
    """Mean over windows of the imbalance of the window's own messages."""
    loads: npt.NDArray[np.int64]
    head_load: npt.NDArray[np.int64]
    """The part of `loads` from keys whose share of the whole stream is at least the threshold."""
    tail_load: npt.NDArray[np.int64]
    replicas: int
    """Distinct (worker, key) pairs."""
    head_replicas: int
    choices: tuple[int, ...]
    """How many workers a hot key could use in the end, one number a source (planned: the most that one used)."""
    sender_error: float
    """How far a sender's own view of a worker's load was off in the end, as a part of it; the largest of all."""
    imbalance_over_time: npt.NDArray[np.float64]
    """I(t) at the window ends."""
    window_imbalance: npt.NDArray[np.float64]
    assignment: npt.NDArray[np.int32] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Give all but the assignment as plain values, ready for JSON."""
        return {
            name: value.tolist()
            if isinstance(value, np.ndarray)
            else list(value)
            if isinstance(value, tuple)
            else value
            for name, value in vars(self).items()
            if name != "assignment"
        }


def simulate(
    hashes: npt.NDArray[Any] | Encoded,
    scheme: str,
    workers: int,
    *,
    sources: int = 5,
    seed: int = 0,
    windows: int = 50,
    weights: npt.NDArray[Any] | None = None,
    capacities: Sequence[float] | None = None,
    assignment: bool = False,
    progress: Callable[[int], None] | None = None,
    **options: Any,
) -> Simulation:
    """Deal a stream to `sources` senders in turn and give the exact loads, imbalances and replicas that result.

    `scheme` is one of `SCHEMES`, with the options of `Sender`; or one of `keyspread.peers.PEERS`; or "planned", which
    plans every window from itself (options: those of `plan`); or "look-ahead", which takes a window for a batch of
    which each source sees its own part before it deals it. `weights`, one whole number a message, make loads their
    sums; `capacities`, one number a worker, make an even load one in proportion to them.

    `progress` is called with the number of messages routed so far. A stream that is simulated often is best given as
    `keyspread.streams.Encoded`, which saves finding its keys each time.

    >>> stream = np.random.default_rng(1).zipf(2.0, 10_000)
    >>> result = simulate(stream, "w-choices", workers=10)
    >>> result.imbalance < 0.01 < simulate(stream, "key", workers=10).imbalance
    True
    """
    stream = hashes if isinstance(hashes, Encoded) else Encoded.of(checks.hashes(hashes))
    workers = checks.whole_number("workers", workers)
    sources = checks.whole_number("sources", sources)
    windows = checks.whole_number("windows", windows)
    seed = checks.whole_number("seed", seed, minimum=0, maximum=2**63)
    ends = metrics.window_ends(stream.messages, windows)
    weighed = None if weights is None else checks.weights(weights, stream.messages)
    relative = checks.capacities(capacities, workers)
    if relative is not None:
        options = options | {"capacities": capacities}
    found = resolve(scheme)
    taken = found.accept(options)
    router: _Dealt | _Planner | _LookingAhead
    if found.kind is Kind.PLANNED:
        router = _Planner(workers, sources, taken)
    elif found.kind is Kind.LOOK_AHEAD:
        router = _LookingAhead(workers, sources, taken)
    elif found.peer is not None:
        if weighed is not None or relative is not None:
            raise InputError(f"{found.name} has neither weights nor capacities in its published rule; leave them out")
        router = _Peers(found.peer, workers, sources, seed, taken, stream)
    else:
        router = _Senders(found.name, workers, sources, seed, taken)
    by_key = stream.weighed(weighed)
    is_head = by_key >= least_hot_count(router.threshold, int(by_key.sum()))
    loads = np.zeros((ends.size, workers), np.int64)
    head_load = np.zeros(workers, np.int64)
    met = np.zeros((stream.hashes.size, words_for(workers)), np.uint64)
    kept = np.empty(stream.messages if assignment else 0, np.int32)
    begin = 0
    for window, end in enumerate(ends.tolist()):
        for start, stop in router.stretches(begin, end):
            own = None if weighed is None else weighed[start:stop]
            routed = router.route(stream.part(start, stop), start, own)
            weight = _UNWEIGHED if own is None else own
            tally(stream.ids[start:stop], routed, weight, is_head, loads[window], head_load, met)
            if assignment:
                kept[start:stop] = routed
            if progress is not None:
                progress(stop)
        begin = end
    replicas = np.empty(stream.hashes.size, np.int64)
    count_bits(met, replicas)
    total = loads.sum(axis=0)
    over_time = np.array([metrics.imbalance(row, relative) for row in np.cumsum(loads, axis=0)])
    window_imbalance = np.array([metrics.imbalance(row, relative) for row in loads])
    return Simulation(
        scheme=found.name,
        workers=workers,
        sources=sources,
        seed=seed,
        messages=stream.messages,
        keys=stream.keys,
        threshold=router.threshold,
        imbalance=metrics.imbalance(total, relative),
        mean_imbalance=float(over_time.mean()) if over_time.size else 0.0,
        windowed_imbalance=float(window_imbalance.mean()) if window_imbalance.size else 0.0,
        loads=total,
        head_load=head_load,
        tail_load=total - head_load,
        replicas=int(replicas.sum()),
        head_replicas=int(replicas[is_head].sum()),
        choices=router.choices,
        sender_error=router.error(total),
        imbalance_over_time=over_time,
        window_imbalance=window_imbalance,
        assignment=kept if assignment else None,
    )


class _Dealt:
    """Message i goes to sender i mod s. Senders know nothing of each other, so each can take its part in one go."""

    threshold: float
    _senders: Sequence[Sender | Peer]

    def stretches(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Cut a window into what is routed at once."""
        step = _CHUNK * min(4, len(self._senders))
        for start in range(begin, end, step):
            yield start, min(start + step, end)

    def route(self, keys: npt.NDArray[np.int64], start: int, weights: _Weights) -> npt.NDArray[np.int32]:
        """Route the messages from `start` on."""
        routed = np.empty(keys.size, np.int32)
        count = len(self._senders)
        for source, sender in enumerate(self._senders):
            own = slice((source - start) % count, None, count)
            if isinstance(sender, Sender) and weights is not None:
                routed[own] = sender.route(keys[own], weights[own])
            else:
                routed[own] = sender.route(keys[own])
        return routed

    @property
    def choices(self) -> tuple[int, ...]:
        """How many workers a hot key may use now, by source."""
        return tuple(sender.choices for sender in self._senders)

    def error(self, loads: npt.NDArray[np.int64]) -> float:
        """Give the largest difference between a worker's share of one sender and of all, as a part of the latter.

        A worker with less than an even share is measured by that: of a load near nothing no part says anything.
        """
        shares = loads / max(1, loads.sum())
        scale = np.maximum(shares, 1 / loads.size)
        own = [sender.loads / sender.loads.sum() for sender in self._senders if sender.loads.sum()]
        return max((float((np.abs(view - shares) / scale).max()) for view in own), default=0.0)


class _Senders(_Dealt):
    """Senders of ours."""

    def __init__(self, scheme: str, workers: int, sources: int, seed: int, options: dict[str, Any]) -> None:
        senders = [Sender(scheme, workers, source=source, seed=seed, **options) for source in range(sources)]
        self._senders, self.threshold = senders, senders[0].settings.threshold


class _Peers(_Dealt):
    """Senders by somebody else's rule; where a user names the hot keys, we name those of the whole stream."""

    def __init__(
        self, peer: type[Peer], workers: int, sources: int, seed: int, options: dict[str, Any], stream: Encoded
    ) -> None:
        self.threshold = peer(workers, **options).threshold
        if peer.is_told_hot_keys and "hot" not in options:
            hot = stream.hashes[stream.counts >= least_hot_count(self.threshold, stream.messages)]
            options = options | {"hot": hot}
        self._senders = [peer(workers, source=source, seed=seed, **options) for source in range(sources)]


class _Planner:
    """Every window is planned from itself, close to the plan before."""

    def __init__(self, workers: int, sources: int, options: dict[str, Any]) -> None:
        self.threshold = checked_threshold(options.get("threshold"), workers)
        self._options = options | {"threshold": self.threshold}
        self._workers, self._sources = workers, sources
        self._plan: Plan | None = None
        self._most = 1

    def stretches(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Give the window whole: its plan is made from all of it."""
        yield begin, end

    def route(self, keys: npt.NDArray[np.int64], start: int, weights: _Weights) -> npt.NDArray[np.int32]:
        """Plan these messages, then route them."""
        made = plan(keys, self._workers, previous=self._plan, weights=weights, **self._options)
        self._plan = made
        self._most = max([self._most, *(len(key.workers) for key in made.head)])
        return made.route(keys)

    @property
    def choices(self) -> tuple[int, ...]:
        """The most workers that a hot key used."""
        return (self._most,) * self._sources

    def error(self, loads: npt.NDArray[np.int64]) -> float:
        """Nothing is estimated: the batch is counted."""
        return 0.0


class _LookingAhead:
    """Every window is a batch: each source plans its own part around the common plan of the batch before."""

    def __init__(self, workers: int, sources: int, options: dict[str, Any]) -> None:
        self.threshold = checked_threshold(options.get("threshold"), workers)
        self._workers, self._sources = workers, sources
        self._capacities = options.get("capacities")
        self._memories: list[Memory] = []

    def stretches(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Give the batch whole."""
        yield begin, end

    def route(self, keys: npt.NDArray[np.int64], start: int, weights: _Weights) -> npt.NDArray[np.int32]:
        """Deal a batch, message i to source i mod s."""
        common = common_plan(self._memories, self._workers, self.threshold, self._capacities)
        self._memories = []
        routed = np.empty(keys.size, np.int32)
        for source in range(self._sources):
            own = slice((source - start) % self._sources, None, self._sources)
            weighed = None if weights is None else weights[own]
            routed[own], memory = deal(keys[own], common, source=source, threshold=self.threshold, weights=weighed)
            self._memories.append(memory)
        return routed

    @property
    def choices(self) -> tuple[int, ...]:
        """The most workers that the common plan gives a hot key."""
        hot = self._memories[0].common.head if self._memories else ()
        return (max((len(key.workers) for key in hot), default=1),) * self._sources

    def error(self, loads: npt.NDArray[np.int64]) -> float:
        """Nothing is estimated: each part is counted."""
        return 0.0
