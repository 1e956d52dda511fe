"""All schemes and peers side by side on one stream: what each leaves uneven, what it costs, and which to take."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from keyspread.evaluation.simulate import simulate
from keyspread.schemes import DESCRIPTORS, Kind, resolve
from keyspread.streams.encoded import Encoded

ALL = tuple(scheme.name for scheme in DESCRIPTORS if not scheme.needs_choices)
"""Every scheme that needs no further number, and the peers."""

EVEN_ENOUGH = 0.1
"""A busiest worker with at most this part more than its even share is not worth any effort."""


@dataclass(frozen=True)
class Compared:
    """What one scheme did to the stream."""

    scheme: str
    imbalance: float
    """I at the end of the stream."""
    windowed_imbalance: float
    """Mean over windows of the imbalance within each: what a running job feels."""
    busiest: float
    """Load of the busiest worker within a window, on average, as a multiple of an even share."""
    replicas: int
    head_replicas: int
    replicas_per_key: float
    rate: float
    """Messages routed per second by one core, in this run."""

    def to_dict(self) -> dict[str, Any]:
        """Give it as plain values."""
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
    """Simulate every scheme on the stream, in the order given. `progress` is called with the schemes done.

    >>> import numpy as np
    >>> [one.scheme for one in compare(Encoded.of(np.arange(100)), 4, ["key", "planned"])]
    ['key', 'planned']
    """
    found = []
    for done, scheme in enumerate(schemes, start=1):
        told = {**resolve(scheme).recommended, **options}  # ours as we recommend it, the paper's as in the paper
        simulate(_beginning(stream), scheme, workers, sources=sources, seed=seed, **told)  # compiled before the clock
        begin = time.perf_counter()
        result = simulate(stream, scheme, workers, sources=sources, seed=seed, windows=windows, **told)
        seconds = time.perf_counter() - begin
        found.append(
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
    return found


def _beginning(stream: Encoded) -> Encoded:
    return Encoded(stream.ids[:1000], stream.hashes)


def best(compared: Sequence[Compared]) -> Compared:
    """Give our scheme with the fewest replicas of those that are even enough, else the most even one."""
    compared = [one for one in compared if not _is_peer(one)] or compared
    even = [one for one in compared if one.busiest <= 1 + EVEN_ENOUGH]
    if even:
        return min(even, key=lambda one: (one.replicas, one.windowed_imbalance))
    return min(compared, key=lambda one: (one.windowed_imbalance, one.replicas))


def _is_peer(compared: Compared) -> bool:
    return resolve(compared.scheme).kind is Kind.PEER


def _routes_one_by_one(compared: Compared) -> bool:
    """Whether a message can be routed before the next one is known."""
    return resolve(compared.scheme).kind not in (Kind.PLANNED, Kind.LOOK_AHEAD)


def frontier(compared: Sequence[Compared]) -> list[Compared]:
    """Give those that no other beats in both windowed imbalance and replicas, the most even first."""
    kept = [one for one in compared if not any(_beats(other, one) for other in compared)]
    return sorted(kept, key=lambda one: (one.windowed_imbalance, one.replicas))


def _beats(one: Compared, other: Compared) -> bool:
    """Whether `one` is no worse in both measures, and better in one."""
    measures, others = (one.windowed_imbalance, one.replicas), (other.windowed_imbalance, other.replicas)
    return measures != others and all(mine <= theirs for mine, theirs in zip(measures, others, strict=True))


def advice(compared: Sequence[Compared], workers: int) -> str:
    """Say in a sentence what to take, also if that is nothing."""
    usual = next((one for one in compared if one.scheme == "key"), None)
    if workers == 1:
        return "One worker has it all: nothing to balance."
    if usual is not None and usual.busiest <= 1 + EVEN_ENOUGH:
        return (
            f"You do not need keyspread here: with key grouping the busiest worker has only {usual.busiest:.2f} × its "
            "even share."
        )
    chosen = best(compared)
    told = f"Take {chosen.scheme}: the busiest worker has {chosen.busiest:.2f} × its even share"
    if usual is not None and chosen is not usual:
        told += f", with key grouping it would have {usual.busiest:.1f} ×"
    told += f"; it costs {chosen.replicas_per_key:.2f} replicas a key."
    online = [one for one in compared if _routes_one_by_one(one)]
    if not _routes_one_by_one(chosen) and online:
        other = best(online)
        told += (
            f" Where messages must be dealt one by one, {other.scheme}: {other.busiest:.2f} × and "
            f"{other.replicas_per_key:.2f}."
        )
        chosen = other
    better = [one.scheme for one in compared if _is_peer(one) and _beats(one, chosen)]
    if better:
        told += f" Better than {chosen.scheme} in both: {', '.join(better)}, by the rule of others."
    return told
