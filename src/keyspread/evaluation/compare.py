"""All schemes and peers side by side on one stream: how even each is, what it costs, and which one to use."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from keyspread.evaluation.simulate import simulate
from keyspread.schemes import DESCRIPTORS, Kind, resolve
from keyspread.schemes.key import KeyGrouping
from keyspread.streams.encoded import Encoded

ALL = tuple(scheme.name for scheme in DESCRIPTORS if not scheme.needs_choices)
"""Every scheme that works without options, and the peers."""

EVEN_ENOUGH = 0.1
"""If the busiest worker has at most this fraction more than its even share, nothing needs to be done."""


@dataclass(frozen=True)
class Compared:
    """The result of one scheme on the stream."""

    scheme: str
    """The canonical name."""
    imbalance: float
    """I at the end of the stream."""
    windowed_imbalance: float
    """The mean of the imbalances within the windows, which a running job notices."""
    busiest: float
    """The load of the busiest worker within a window, on average, as a multiple of the even share."""
    replicas: int
    """The number of distinct (worker, key) pairs."""
    head_replicas: int
    """The number of distinct (worker, key) pairs of hot keys."""
    replicas_per_key: float
    """The mean number of workers per key."""
    rate: float
    """Messages routed per second on one core, in this run."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return dict(vars(self))


def compare(
    stream: Encoded,
    workers: int,
    schemes: Sequence[str] = ALL,
    *,
    sources: int = 5,
    seed: int = 0,
    windows: int = 50,
    progress: Callable[[int], None] | None = None,
    **options: Any,
) -> list[Compared]:
    """Simulate every scheme on the stream, in the given order.

    Recommended options of a scheme are set unless `options` has others. `progress` is called with the number of schemes
    that are done.

    >>> import numpy as np
    >>> [one.scheme for one in compare(Encoded.of(np.arange(100)), 4, ["key", "planned"])]
    ['key', 'planned']
    """
    results = []
    for done, scheme in enumerate(schemes, start=1):
        used = {**resolve(scheme).recommended, **options}
        simulate(_beginning(stream), scheme, workers, sources=sources, seed=seed, **used)  # compile before timing
        begin = time.perf_counter()
        result = simulate(stream, scheme, workers, sources=sources, seed=seed, windows=windows, **used)
        seconds = time.perf_counter() - begin
        results.append(
            Compared(
                scheme=result.scheme,
                imbalance=result.imbalance,
                windowed_imbalance=result.windowed_imbalance,
                busiest=1 + result.windowed_imbalance * workers,
                replicas=result.replicas,
                head_replicas=result.head_replicas,
                replicas_per_key=result.replicas / max(1, result.keys),
                rate=result.messages / max(seconds, 1e-9),
            )
        )
        if progress is not None:
            progress(done)
    return results


def _beginning(stream: Encoded) -> Encoded:
    return Encoded(stream.ids[:1000], stream.hashes)


def best(compared: Sequence[Compared]) -> Compared:
    """Return our scheme with the fewest replicas among those that are even enough; if none is, the most even one."""
    compared = [one for one in compared if not _is_peer(one)] or compared
    even = [one for one in compared if one.busiest <= 1 + EVEN_ENOUGH]
    if even:
        return min(even, key=lambda one: (one.replicas, one.windowed_imbalance))
    return min(compared, key=lambda one: (one.windowed_imbalance, one.replicas))


def _is_peer(compared: Compared) -> bool:
    return resolve(compared.scheme).kind is Kind.PEER


def _routes_one_by_one(compared: Compared) -> bool:
    """Return whether a message can be routed before the next one is known."""
    return resolve(compared.scheme).kind not in (Kind.PLANNED, Kind.LOOK_AHEAD)


def frontier(compared: Sequence[Compared]) -> list[Compared]:
    """Return the results that no other beats in both windowed imbalance and replicas, the most even first."""
    unbeaten = [one for one in compared if not any(_beats(other, one) for other in compared)]
    return sorted(unbeaten, key=lambda one: (one.windowed_imbalance, one.replicas))


def _beats(one: Compared, other: Compared) -> bool:
    """Return whether `one` is no worse in both measures and better in at least one."""
    measures, others = (one.windowed_imbalance, one.replicas), (other.windowed_imbalance, other.replicas)
    return measures != others and all(mine <= theirs for mine, theirs in zip(measures, others, strict=True))


def advice(compared: Sequence[Compared], workers: int) -> str:
    """Return a sentence that says which scheme to use, or that none is needed."""
    by_key = next((one for one in compared if one.scheme == KeyGrouping.name), None)
    if workers == 1:
        return "There is only one worker: nothing to balance."
    if by_key is not None and by_key.busiest <= 1 + EVEN_ENOUGH:
        return (
            f"You do not need keyspread here: with key grouping the busiest worker has only {by_key.busiest:.2f} × its "
            "even share."
        )
    chosen = best(compared)
    text = f"Use {chosen.scheme}: the busiest worker has {chosen.busiest:.2f} × its even share"
    if by_key is not None and chosen is not by_key:
        text += f" (with key grouping {by_key.busiest:.1f} ×)"
    text += f", at {chosen.replicas_per_key:.2f} replicas per key."
    online = [one for one in compared if _routes_one_by_one(one)]
    if not _routes_one_by_one(chosen) and online:
        other = best(online)
        text += (
            f" If messages must be routed one by one, use {other.scheme}: {other.busiest:.2f} × at "
            f"{other.replicas_per_key:.2f} replicas per key."
        )
        chosen = other
    better = [one.scheme for one in compared if _is_peer(one) and _beats(one, chosen)]
    if better:
        are = "a published alternative, is" if len(better) == 1 else "published alternatives, are"
        text += f" {' and '.join(better)}, {are} better than {chosen.scheme} on both counts."
    return text
