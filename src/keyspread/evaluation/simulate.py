"""The simulator: one stream through s senders, and the exact loads, imbalances and replicas that result.

It runs in this process, without an engine. Messages are routed and counted in chunks, and not kept: besides the stream
itself, the memory is one bit per key and worker.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.checks import checked_threshold, least_hot_count
from keyspread.drawing.picture import Drawn, Picture, Trend, of_loads
from keyspread.errors import InputError
from keyspread.evaluation import metrics
from keyspread.kernels.balance import words_for
from keyspread.kernels.planned_routing import count_bits, tally
from keyspread.planned.look_ahead import plan_part
from keyspread.planned.plan import Plan
from keyspread.planned.planner import plan
from keyspread.sender.peers import Peer
from keyspread.sender.registry import Descriptor, Kind, resolve
from keyspread.sender.sender import Sender
from keyspread.sender.settings import SenderSettings
from keyspread.streams.encoded import Encoded, window_ends

_CHUNK = 1 << 18  # messages routed at once: their hashes and workers stay in the cache until they are tallied

_BYTES_PER_WORKER, _BYTES_PER_COUNTER = 64, 100  # of a sender, about
_UNWEIGHED = np.empty(0, np.int64)
_Weights = npt.NDArray[np.int64] | None


@dataclass(frozen=True)
class Simulation(Drawn):
    """The result of routing a stream by one scheme.

    Loads count messages, or add up their weights. The imbalance I is the largest share of a worker - 1/n.

    >>> import keyspread as ks
    >>> result = ks.simulate(ks.hash_keys(["hot"] * 30 + list("abcdefghij")), "planned", workers=4, windows=1)
    >>> result.loads.tolist(), result.replicas
    ([10, 10, 10, 10], 14)
    """

    scheme: str
    """The canonical name of the scheme."""
    workers: int
    """The number of workers n."""
    sources: int
    """The number of senders; message i is routed by sender i mod `sources`."""
    seed: int
    """The seed."""
    messages: int
    """The number of messages."""
    keys: int
    """The number of distinct keys."""
    threshold: float
    """The minimum share of a hot key."""
    imbalance: float
    """I at the end of the stream."""
    mean_imbalance: float
    """The mean of I(t) at the window ends."""
    windowed_imbalance: float
    """The mean of the imbalances within the windows."""
    loads: npt.NDArray[np.int64]
    """The load of every worker."""
    head_load: npt.NDArray[np.int64]
    """The part of `loads` from hot keys: those whose share of the whole stream is at least the threshold."""
    tail_load: npt.NDArray[np.int64]
    """The part of `loads` from all other keys."""
    replicas: int
    """The number of distinct (worker, key) pairs."""
    head_replicas: int
    """The number of distinct (worker, key) pairs of hot keys."""
    choices: tuple[int, ...]
    """How many workers a hot key may use at the end, per sender; planned: the most that a hot key used."""
    sender_error: float
    """The largest error of a sender's own estimate of a worker's share at the end, relative to the true share; shares
    below 1/n count as 1/n. 0 for schemes that count the batch."""
    imbalance_over_time: npt.NDArray[np.float64]
    """I(t) at the end of every window, from the start of the stream."""
    window_imbalance: npt.NDArray[np.float64]
    """The imbalance within every window."""
    assignment: npt.NDArray[np.int32] | None = None
    """The worker of every message, if it was asked for."""

    def picture(self) -> Picture:
        """Return the load of every worker, and the imbalance within every window."""
        return Picture(
            f"{self.scheme}, {self.workers:,} workers",
            f"{self.messages:,} messages, {self.keys:,} keys, {self.sources:,} senders, "
            f"{self.replicas / max(1, self.keys):.2f} replicas per key",
            [
                of_loads("messages", self.loads.tolist(), self.head_load.tolist()),
                Trend(
                    f"imbalance per window: {self.windowed_imbalance:.2g} on average", self.window_imbalance.tolist()
                ),
            ],
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all fields except the assignment as plain values, ready for JSON."""
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
    threshold: float | None = None,
    tolerance: float | None = None,
    counters: int | None = None,
    choices: int | None = None,
    half_life: float | str | None = None,
    buckets: int | None = None,
    slack: float | None = None,
    most_moved: float | None = None,
    assignment: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Simulation:
    """Route a stream through `sources` senders in turn, and return the exact loads, imbalances and replicas.

    `scheme` is one of these:

    - one of `SCHEMES`
    - "planned", which plans every window from the window itself, close to the plan before it
    - "look-ahead", which takes a window as a batch: each sender reads its part of it before it routes it
    - one of `keyspread.peers.PEERS`

    An option that does not apply to the scheme is refused. If a stream is simulated more than once, pass it as
    `keyspread.streams.Encoded`: its keys are then looked for only once.

    Args:
        hashes: The hash of every message, or an `Encoded` stream.
        scheme: The name of a scheme.
        workers: The number of workers.
        sources: The number of senders, which take turns.
        seed: Seeds the hash functions.
        windows: The number of windows, with equal message counts.
        weights: The weight of every message, by default 1; a load is then the sum of the weights.
        threshold: The minimum share of a hot key, for the scheme and in the result; by default 1/(5·workers).
        tolerance: Of d-choices and per-key: the imbalance that they allow.
        counters: Of a scheme that learns the hot keys: how many keys it counts.
        choices: Of greedy: the number of workers per hot key.
        half_life: Of one of `SCHEMES`: as in `Sender`.
        buckets: Of planned: as in `plan`.
        slack: Of planned: as in `plan`.
        most_moved: Of planned: as in `plan`.
        assignment: Whether the result has the worker of every message.
        progress: Called with the number of messages that are done.

    Returns:
        Loads, imbalance over time and replicas.

    Raises:
        InputError: An argument is wrong; the message names it, the value and the remedy.

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
    ends = window_ends(stream.messages, windows)
    weighed = None if weights is None else checks.weights(weights, stream.messages)
    hot_share = checked_threshold(threshold, workers)
    described = resolve(scheme)
    options = described.require(
        {
            "tolerance": tolerance,
            "counters": counters,
            "choices": choices,
            "half_life": half_life,
            "buckets": buckets,
            "slack": slack,
            "most_moved": most_moved,
        }
    )
    if "threshold" in described.options:
        options["threshold"] = hot_share
    _check_size(stream, described, workers, sources, ends.size, options)
    by_key = stream.weighed(weighed)
    is_head = by_key >= least_hot_count(hot_share, int(by_key.sum()))
    router: _InTurn | _Planner | _LookingAhead
    if described.kind is Kind.PLANNED:
        router = _Planner(workers, sources, options)
    elif described.kind is Kind.LOOK_AHEAD:
        router = _LookingAhead(workers, sources, hot_share)
    elif described.peer is not None:
        if weighed is not None:
            raise InputError(f"{described.name} has no weights in its published rule; leave them out")
        if described.peer.takes_hot_keys:  # those of the whole stream: the best that a user can know
            options["hot"] = stream.hashes[is_head]
        peer = described.peer
        router = _InTurn([peer(workers, source=at, seed=seed, **options) for at in range(sources)])
    else:
        router = _InTurn([Sender(described.name, workers, source=at, seed=seed, **options) for at in range(sources)])
    loads = np.zeros((ends.size, workers), np.int64)
    head_load = np.zeros(workers, np.int64)
    workers_of_key = np.zeros((stream.hashes.size, words_for(workers)), np.uint64)
    assigned = np.empty(stream.messages if assignment else 0, np.int32)
    begin = 0
    for window, end in enumerate(ends.tolist()):
        for start, stop in router.chunks(begin, end):
            part = None if weighed is None else weighed[start:stop]
            routed = router.route(stream.part(start, stop), start, part)
            weight = _UNWEIGHED if part is None else part
            tally(stream.ids[start:stop], routed, weight, is_head, loads[window], head_load, workers_of_key)
            if assignment:
                assigned[start:stop] = routed
            if progress is not None:
                progress(stop)
        begin = end
    replicas = np.empty(stream.hashes.size, np.int64)
    count_bits(workers_of_key, replicas)
    total = loads.sum(axis=0)
    over_time = np.array([metrics.imbalance(row) for row in np.cumsum(loads, axis=0)])
    window_imbalance = np.array([metrics.imbalance(row) for row in loads])
    return Simulation(
        scheme=described.name,
        workers=workers,
        sources=sources,
        seed=seed,
        messages=stream.messages,
        keys=stream.keys,
        threshold=hot_share,
        imbalance=metrics.imbalance(total),
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
        assignment=assigned if assignment else None,
    )


def _check_size(
    stream: Encoded, scheme: Descriptor, workers: int, sources: int, windows: int, options: dict[str, Any]
) -> None:
    """Refuse a simulation that would take hours, or more memory than machines have."""
    work, limit = workers * windows * sources, checks.LIMITS["workers × windows × sources"]
    if work > limit:
        raise InputError(
            f"workers × windows × sources must be at most {limit:,}, got {workers:,} × {windows:,} × {sources:,}"
        )
    counters = 0 if scheme.rule is None else SenderSettings.of(scheme.rule, workers, **options).counters
    checks.fits_in_memory(
        f"a simulation with {workers:,} workers, {sources:,} sources and {stream.hashes.size:,} keys",
        8 * workers * windows  # loads
        + 8 * words_for(workers) * stream.hashes.size  # which worker had which key
        + sources * (_BYTES_PER_WORKER * workers + _BYTES_PER_COUNTER * counters),
        "use fewer of them",
    )


class _InTurn:
    """Message i is routed by sender i mod s. Senders are independent, so each routes its part of a chunk at once."""

    def __init__(self, senders: Sequence[Sender | Peer]) -> None:
        self._senders = senders

    def chunks(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the chunks of a window: each is routed at once."""
        step = _CHUNK * min(4, len(self._senders))
        for start in range(begin, end, step):
            yield start, min(start + step, end)

    def route(self, keys: npt.NDArray[np.int64], start: int, weights: _Weights) -> npt.NDArray[np.int32]:
        """Route a chunk that begins at message `start`."""
        routed = np.empty(keys.size, np.int32)
        count = len(self._senders)
        for source, sender in enumerate(self._senders):
            part = slice((source - start) % count, None, count)
            if isinstance(sender, Sender) and weights is not None:
                routed[part] = sender.route(keys[part], weights[part])
            else:
                routed[part] = sender.route(keys[part])
        return routed

    @property
    def choices(self) -> tuple[int, ...]:
        """How many workers a hot key may use now, per sender."""
        return tuple(sender.choices for sender in self._senders)

    def error(self, loads: npt.NDArray[np.int64]) -> float:
        """Return the largest difference between a worker's share at one sender and overall, relative to the latter.

        Shares below an even one count as even: relative to a load near 0, any difference would be large.
        """
        shares = loads / max(1, loads.sum())
        scale = np.maximum(shares, 1 / loads.size)
        estimates = [sender.loads / sender.loads.sum() for sender in self._senders if sender.loads.sum()]
        return max((float((np.abs(estimate - shares) / scale).max()) for estimate in estimates), default=0.0)


class _Planner:
    """Plans every window from the window itself, close to the plan before it."""

    def __init__(self, workers: int, sources: int, options: dict[str, Any]) -> None:
        self._workers, self._sources, self._options = workers, sources, options
        self._plan: Plan | None = None
        self._most = 1

    def chunks(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the whole window: its plan is made from all of its messages."""
        yield begin, end

    def route(self, keys: npt.NDArray[np.int64], start: int, weights: _Weights) -> npt.NDArray[np.int32]:
        """Plan these messages, then route them."""
        self._plan = plan(keys, self._workers, previous=self._plan, weights=weights, **self._options)
        self._most = max(self._most, int(self._plan.pieces.sizes.max(initial=0)))
        return self._plan.route(keys)

    @property
    def choices(self) -> tuple[int, ...]:
        """The largest number of workers that a hot key used."""
        return (self._most,) * self._sources

    def error(self, loads: npt.NDArray[np.int64]) -> float:
        """Return 0: the batch is counted, not estimated."""
        return 0.0


class _LookingAhead:
    """Every window is a batch, of which each source plans and routes its own part."""

    def __init__(self, workers: int, sources: int, threshold: float) -> None:
        self._workers, self._sources, self._threshold = workers, sources, threshold
        self._most = [1] * sources

    def chunks(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Return the whole batch, because it is planned as a whole."""
        yield begin, end

    def route(self, keys: npt.NDArray[np.int64], start: int, weights: _Weights) -> npt.NDArray[np.int32]:
        """Route a batch; message i belongs to source i mod s."""
        routed = np.empty(keys.size, np.int32)
        for source in range(self._sources):
            part = slice((source - start) % self._sources, None, self._sources)
            own = None if weights is None else weights[part]
            planned = plan_part(keys[part], self._workers, source=source, threshold=self._threshold, weights=own)
            routed[part] = planned.route(keys[part])
            self._most[source] = max(self._most[source], int(planned.pieces.sizes.max(initial=0)))
        return routed

    @property
    def choices(self) -> tuple[int, ...]:
        """The largest number of workers that a hot key used, per source."""
        return tuple(self._most)

    def error(self, loads: npt.NDArray[np.int64]) -> float:
        """Return 0: nothing is estimated, each part is counted."""
        return 0.0
