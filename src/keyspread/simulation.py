"""The simulator: one stream, dealt round robin to s senders, and what came of it. In-process, no engine."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from keyspread import checks, metrics
from keyspread.errors import InputError
from keyspread.planning import encoded, plan
from keyspread.schemes import PLANNED, find_scheme
from keyspread.sender import Sender
from keyspread.settings import Settings, default_threshold

_CHUNK = 1 << 20  # messages between two reports of progress


@dataclass(frozen=True)
class Simulation:
    """What a scheme did to a stream. Loads are messages, imbalances are shares."""

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
    hashes: npt.NDArray[Any],
    scheme: str,
    workers: int,
    *,
    sources: int = 5,
    seed: int = 0,
    windows: int = 50,
    assignment: bool = False,
    progress: Callable[[int], None] | None = None,
    **options: Any,
) -> Simulation:
    """Deal a stream to `sources` senders in turn and give the exact loads, imbalances and replicas that result.

    `scheme` is one of `SCHEMES`, with the options of `Sender`, or "planned", which plans every window from itself
    (options: threshold, buckets). `progress` is called with the number of messages routed so far.

    >>> stream = np.random.default_rng(1).zipf(2.0, 10_000)
    >>> result = simulate(stream, "w-choices", workers=10)
    >>> result.imbalance < 0.01 < simulate(stream, "key", workers=10).imbalance
    True
    """
    keys = checks.hashes(hashes)
    workers = checks.whole_number("workers", workers)
    sources = checks.whole_number("sources", sources)
    windows = checks.whole_number("windows", windows)
    seed = checks.whole_number("seed", seed, minimum=0, maximum=2**63)
    ends = metrics.window_ends(keys.size, windows)
    report = progress or (lambda done: None)
    if isinstance(scheme, str) and scheme.lower() == PLANNED:
        name = PLANNED
        routed, most, threshold = _planned(keys, workers, ends, report, **options)
        choices = (most,) * sources
    else:
        name = find_scheme(scheme).name
        Settings.of(find_scheme(scheme), workers, seed=seed, **options)  # one clear line for a wrong option
        senders = [Sender(name, workers, source=source, seed=seed, **options) for source in range(sources)]
        routed = _online(keys, senders, report)
        choices = tuple(sender.choices for sender in senders)
        threshold = senders[0].settings.threshold
    distinct, ids = encoded(keys)
    is_head = np.bincount(ids, minlength=distinct.size) >= metrics.hot_from(threshold, keys.size)
    replicas = metrics.workers_per_key(ids, routed, distinct.size, workers)
    by_window = metrics.loads_by_window(routed, workers, ends)
    loads = by_window.sum(axis=0)
    head_load = np.bincount(routed[is_head[ids]], minlength=workers)
    over_time = np.array([metrics.imbalance(row) for row in np.cumsum(by_window, axis=0)])
    window_imbalance = np.array([metrics.imbalance(row) for row in by_window])
    return Simulation(
        scheme=name,
        workers=workers,
        sources=sources,
        seed=seed,
        messages=keys.size,
        keys=distinct.size,
        threshold=threshold,
        imbalance=metrics.imbalance(loads),
        mean_imbalance=float(over_time.mean()) if over_time.size else 0.0,
        windowed_imbalance=float(window_imbalance.mean()) if window_imbalance.size else 0.0,
        loads=loads,
        head_load=head_load,
        tail_load=loads - head_load,
        replicas=int(replicas.sum()),
        head_replicas=int(replicas[is_head].sum()),
        choices=choices,
        imbalance_over_time=over_time,
        window_imbalance=window_imbalance,
        assignment=routed if assignment else None,
    )


def _online(keys: npt.NDArray[np.int64], senders: list[Sender], report: Callable[[int], None]) -> npt.NDArray[np.int32]:
    """Give message i to sender i mod s. Senders know nothing of each other, so each can take its part in one go."""
    routed = np.empty(keys.size, np.int32)
    step = _CHUNK * len(senders)
    for begin in range(0, keys.size, step):
        end = min(begin + step, keys.size)
        for source, sender in enumerate(senders):
            own = slice(begin + source, end, len(senders))
            routed[own] = sender.route(keys[own])
            report(begin + (end - begin) * (source + 1) // len(senders))
    return routed


def _planned(
    keys: npt.NDArray[np.int64],
    workers: int,
    ends: npt.NDArray[np.int64],
    report: Callable[[int], None],
    threshold: float | None = None,
    buckets: int | None = None,
    **unused: Any,
) -> tuple[npt.NDArray[np.int32], int, float]:
    unknown = unused.keys() - {"tolerance", "capacity", "choices", "half_life"}  # what other schemes take is accepted
    if unknown:
        raise InputError(f"unknown option {min(unknown)!r}; {PLANNED} takes threshold and buckets")
    routed = np.empty(keys.size, np.int32)
    current, most, begin = None, 1, 0
    for end in ends.tolist():
        window = keys[begin:end]
        current = plan(window, workers, previous=current, threshold=threshold, buckets=buckets)
        routed[begin:end] = current.route(window)
        most = max([most, *(len(key.workers) for key in current.head)])
        begin = end
        report(end)
    used = default_threshold(workers) if threshold is None else checks.share("threshold", threshold)
    return routed, most, used
