"""All schemes and peers side by side on one stream: how even each is, and what it costs. `advice` picks one of them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from keyspread import checks
from keyspread.drawing.picture import Bar, Bars, Drawn, Picture, Table
from keyspread.errors import InputError
from keyspread.evaluation.simulate import simulate
from keyspread.schemes import DESCRIPTORS, resolve
from keyspread.streams.encoded import Encoded

ALL = tuple(scheme.name for scheme in DESCRIPTORS if not scheme.needs_choices)
"""Every scheme that works without options, and the peers."""

RATE_INCLUDES = "planning, learning the hot keys, routing, and the simulator's counting of loads and replicas"
"""What the time behind a rate was spent on: the whole simulation, so a scheme that plans pays for its plans."""

SHORTEST_TIMED = 100_000
"""Messages from which a rate says something about a scheme; of fewer, fixed costs take most of the time."""


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
    rate: float | None
    """Messages per second on one core in this simulation, with all that `RATE_INCLUDES` names; None below
    `SHORTEST_TIMED` messages."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return dict(vars(self))


class Comparison(list[Compared], Drawn):
    """The results of several schemes on one stream, in the order in which they were asked for.

    >>> import keyspread as ks
    >>> results = ks.compare(ks.hash_keys(["hot"] * 50 + [f"k{i}" for i in range(50)]), 4, ["key", "planned"])
    >>> [(result.scheme, result.replicas) for result in results]
    [('key', 51), ('planned', 52)]
    """

    def picture(self) -> Picture:
        """Return the busiest worker of every scheme, and what each scheme costs, the most even first."""
        order = sorted(self, key=_evenness)
        return Picture(
            f"{len(self)} schemes on one stream",
            "busiest worker within a window, on average, as a multiple of the even share",
            [
                Bars(
                    "",
                    [
                        Bar(result.scheme, result.busiest, f"{result.busiest:.2f} ×", result is order[0])
                        for result in order
                    ],
                ),
                Table(
                    ("scheme", "imbalance", "replicas per key", "messages per second"),
                    [
                        (
                            result.scheme,
                            f"{result.windowed_imbalance:.1e}",
                            f"{result.replicas_per_key:.2f}",
                            "–" if result.rate is None else f"{result.rate:,.0f}",
                        )
                        for result in order
                    ],
                ),
            ],
        )


def compare(
    stream: npt.NDArray[Any] | Encoded,
    workers: int,
    schemes: Sequence[str] = ALL,
    *,
    sources: int = 5,
    seed: int = 0,
    windows: int = 50,
    threshold: float | None = None,
    tolerance: float | None = None,
    counters: int | None = None,
    choices: int | None = None,
    half_life: float | str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Comparison:
    """Simulate several schemes on one stream, to see how even each is and what it costs.

    Every scheme gets the options that it takes; an option that none of the schemes takes is refused. Options replace
    the recommended ones of a scheme.

    Args:
        stream: Hashes of keys in the order of the messages, as `hash_keys` returns them, or an `Encoded` stream.
        workers: The number of workers.
        schemes: Names of schemes; by default every one that works without options, and the peers.
        sources: The number of senders.
        seed: The seed of the candidates.
        windows: Windows of equal message counts, over which the imbalance is averaged.
        threshold: The minimum share of a hot key, for the schemes and in the result; by default 1/(5·workers).
        tolerance: Of d-choices and per-key: the imbalance that they allow.
        counters: Of schemes that learn the hot keys: how many keys a sender counts.
        choices: Of greedy: the number of workers per hot key.
        half_life: Of online schemes: as in `Sender`.
        progress: Called with the number of schemes that are done.

    Returns:
        One result per scheme, in the given order. It draws itself in a notebook.

    Raises:
        InputError: The stream is not an array of hashes, or a scheme or a number is not valid.

    >>> import numpy as np
    >>> [result.scheme for result in compare(np.arange(100), 4, ["key", "planned"])]
    ['key', 'planned']
    """
    encoded = stream if isinstance(stream, Encoded) else Encoded.of(checks.hashes(stream))
    options = _given(schemes, tolerance=tolerance, counters=counters, choices=choices, half_life=half_life)
    results = Comparison()
    for done, scheme in enumerate(schemes, start=1):
        used = {**resolve(scheme).recommended, **resolve(scheme).accept(options), "threshold": threshold}
        simulate(_beginning(encoded), scheme, workers, sources=sources, seed=seed, **used)  # compile before timing
        begin = time.perf_counter()
        result = simulate(encoded, scheme, workers, sources=sources, seed=seed, windows=windows, **used)
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
                rate=result.messages / seconds if result.messages >= SHORTEST_TIMED else None,
            )
        )
        if progress is not None:
            progress(done)
    return results


def _given(schemes: Sequence[str], **options: Any) -> dict[str, Any]:
    """Return the options that are not None; refuse one that no scheme takes."""
    given = {name: value for name, value in options.items() if value is not None}
    taken = {name for scheme in schemes for name in resolve(scheme).options}
    for name in given.keys() - taken:
        raise InputError(f"{name} applies to none of the schemes {', '.join(schemes)}, got {given[name]!r}")
    return given


def _beginning(stream: Encoded) -> Encoded:
    return Encoded(stream.ids[:1000], stream.hashes)


def frontier(compared: Sequence[Compared]) -> list[Compared]:
    """Return the results that no other beats in both windowed imbalance and replicas, the most even first."""
    unbeaten = [result for result in compared if not any(beats(other, result) for other in compared)]
    return sorted(unbeaten, key=_evenness)


def beats(result: Compared, other: Compared) -> bool:
    """Return whether `result` is no worse in both measures and better in at least one."""
    measures, others = _evenness(result), _evenness(other)
    return measures != others and all(mine <= theirs for mine, theirs in zip(measures, others, strict=True))


def _evenness(result: Compared) -> tuple[float, int]:
    """Return both measures of a scheme; the most even one is first in this order."""
    return result.windowed_imbalance, result.replicas
