"""All schemes and peers side by side on one stream: how even each is, and what it costs. `advice` picks one of them."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.drawing.picture import Bar, Bars, Drawn, Picture, Table
from keyspread.errors import InputError
from keyspread.evaluation.simulate import simulate
from keyspread.sender.registry import DESCRIPTORS, Kind, resolve
from keyspread.sender.schemes import KeyGrouping
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


# How uneven loads are by chance alone: what a comparison of schemes must allow for.


FEWEST_KEYS = 100
"""Keys per worker: fewer count as this many. A larger imbalance than that is one that a plan removes."""

_LARGEST = 1e6  # mean load above which the excess is scaled: a Poisson variable is then normal to three digits


def busiest_by_chance(messages: float, workers: int, keys: int | None = None) -> float:
    """Return the expected load of the busiest worker if nothing is skewed, as a multiple of the even share.

    Without `keys`, each of `messages` messages is assigned to a random worker. With `keys`, each of so many equally
    frequent keys is assigned to a random worker, which is what key grouping does to uniform keys.

    The loads of n workers are multinomial: independent Poisson variables, less the deviation of their mean. The
    expected maximum is therefore that of n independent Poisson variables with the same mean, up to terms of higher
    order. With keys, the variance of a load relative to its squared mean is n/messages + n/keys.

    >>> round(busiest_by_chance(2000, 16), 2), round(busiest_by_chance(2000, 16, keys=5000), 2)
    (1.16, 1.19)
    """
    workers = checks.whole_number("workers", workers, maximum=2**31 - 1)
    if workers == 1 or messages <= 0:
        return 1.0
    mean = messages / workers
    if keys is not None:
        mean = 1 / (1 / mean + 1 / max(keys / workers, FEWEST_KEYS))
    if mean > _LARGEST:
        return 1 + (busiest_by_chance(_LARGEST * workers, workers) - 1) * math.sqrt(_LARGEST / mean)
    return _largest_of_poisson(mean, workers) / mean


def _largest_of_poisson(mean: float, variables: int) -> float:
    """Return E[max] = sum over k >= 0 of P(max > k) = 1 - P(X <= k)^n."""
    # Beyond mean + 9 sqrt(mean), or 60 where the mean is small, nothing counts: P(X > k) < 1e-16 / n for n < 1e9.
    reach = 9 * math.sqrt(mean) + 60
    lowest, highest = max(0, math.floor(mean - reach)), math.ceil(mean + reach)
    values = np.arange(lowest, highest + 1)
    logs = np.concatenate([[0.0], np.cumsum(math.log(mean) - np.log(values[1:]))])  # p(k) / p(k - 1) = mean / k
    probabilities = np.exp(logs - logs.max())
    above = np.clip(1 - np.cumsum(probabilities) / probabilities.sum(), 0.0, 1.0)
    with np.errstate(divide="ignore"):  # log(0) at P(X > k) = 1: then the maximum is above k too
        exceeds = -np.expm1(variables * np.log1p(-above))
    return lowest + float(exceeds.sum())


# Which of the compared schemes to use, if any: a difference that chance explains is no reason to use one.


EVEN_ENOUGH = 0.1
"""A load is even if the busiest worker exceeds what chance gives by at most this fraction of the even share."""

FEWEST_MESSAGES = 100
"""Messages per worker and window: with fewer, chance alone makes the busiest worker 10 % busier and more."""


CLEARLY = 2.0
"""A load that is this many times what chance gives is skewed, however few messages there are."""


@dataclass(frozen=True)
class Sample:
    """What the schemes were compared on: how much chance is in the numbers."""

    workers: int
    messages: int
    windows: int
    keys: int

    @property
    def messages_per_window(self) -> int:
        """The number of messages in the smallest window."""
        return self.messages // max(1, min(self.windows, self.messages))

    @property
    def messages_needed(self) -> int:
        """The number of messages that a window needs before there is advice."""
        return FEWEST_MESSAGES * self.workers


@dataclass(frozen=True)
class Advice:
    """The scheme to use, or None; and why, in a sentence or two."""

    scheme: str | None
    text: str


def good_enough(sample: Sample) -> float:
    """Return the load of the busiest worker up to which a scheme is even: what chance gives, and a little more."""
    return busiest_by_chance(sample.messages_per_window, sample.workers) + EVEN_ENOUGH


def advise(compared: Sequence[Compared], sample: Sample) -> Advice:
    """Return which scheme of ours to use, or that none is needed, or why nothing can be said.

    - None is needed if key grouping is as even as it would be with equally frequent keys.
    - Otherwise it is the scheme with the fewest replicas among those that are as even as random assignment of single
      messages; if none is, the most even one, if it is better than key grouping at all.
    - Baselines and published alternatives are never recommended.
    """
    if sample.workers == 1:
        return Advice(None, "There is only one worker: nothing to balance.")
    by_key = next((result for result in compared if result.scheme == KeyGrouping.name), None)
    chance = busiest_by_chance(sample.messages_per_window, sample.workers, sample.keys)
    if sample.messages_per_window < sample.messages_needed:
        text = f"No advice: {_too_few(sample)}."
        if by_key is not None and by_key.busiest > CLEARLY * chance:
            text += (
                f" But key grouping is clearly uneven: its busiest worker has {by_key.busiest:.2f} × its even share, "
                f"and with equally frequent keys it would have {chance:.2f} ×."
            )
        return Advice(None, text)
    if by_key is not None and by_key.busiest <= chance + EVEN_ENOUGH:
        return Advice(
            None,
            f"You do not need keyspread here: with key grouping the busiest worker has {by_key.busiest:.2f} × its "
            f"even share, and with equally frequent keys it would have {chance:.2f} × by chance.",
        )
    ours = [result for result in compared if _kind(result) not in (Kind.BASELINE, Kind.PEER)]
    if not ours:
        return Advice(None, "No advice: only baselines and published alternatives were compared; add planned, per-key.")
    chosen = _best(ours, sample)
    if by_key is not None and chosen.busiest > by_key.busiest - EVEN_ENOUGH:
        return Advice(
            None,
            f"No scheme is clearly better than key grouping here: the busiest worker has {by_key.busiest:.2f} × its "
            f"even share, with {chosen.scheme} {chosen.busiest:.2f} ×.",
        )
    return Advice(chosen.scheme, _reasons(chosen, by_key, ours, compared, sample))


def _too_few(sample: Sample) -> str:
    """Return how many messages there are, how many are needed, and what to do about it."""
    remedies = ["more messages", f"{sample.messages_per_window // FEWEST_MESSAGES:,} workers or fewer"]
    if sample.messages_per_window < 2 * FEWEST_MESSAGES:
        remedies[1] = "fewer workers"
    if sample.messages >= sample.messages_needed:
        windows = sample.messages // sample.messages_needed
        remedies.insert(1, f"{windows:,} window{'s or fewer' if windows > 1 else ''}")
    per_window = f"{sample.messages_per_window:,} message{'' if sample.messages_per_window == 1 else 's'} per window"
    return (
        f"with {per_window}, chance alone makes {sample.workers:,} workers uneven; at least "
        f"{sample.messages_needed:,} are needed: use {', '.join(remedies[:-1])} or {remedies[-1]}"
    )


def _best(ours: Sequence[Compared], sample: Sample) -> Compared:
    """Return the scheme with the fewest replicas among those that are even; if none is, the most even one."""
    even = [result for result in ours if result.busiest <= good_enough(sample)]
    if even:
        return min(even, key=lambda result: (result.replicas, result.windowed_imbalance))
    return min(ours, key=lambda result: (result.windowed_imbalance, result.replicas))


def _reasons(
    chosen: Compared, by_key: Compared | None, ours: Sequence[Compared], compared: Sequence[Compared], sample: Sample
) -> str:
    text = f"Use {chosen.scheme}: the busiest worker has {chosen.busiest:.2f} × its even share"
    if by_key is not None:
        text += f" (with key grouping {by_key.busiest:.2f} ×)"
    text += f", at {chosen.replicas_per_key:.2f} replicas per key."
    online = [result for result in ours if _routes_one_by_one(result)]
    if not _routes_one_by_one(chosen) and online:
        chosen = _best(online, sample)
        text += (
            f" If messages must be routed one by one, use {chosen.scheme}: {chosen.busiest:.2f} × at "
            f"{chosen.replicas_per_key:.2f} replicas per key."
        )
    better = [result.scheme for result in compared if _kind(result) is Kind.PEER and beats(result, chosen)]
    if better:
        are = "a published alternative, is" if len(better) == 1 else "published alternatives, are"
        text += f" {' and '.join(better)}, {are} better than {chosen.scheme} on both counts."
    return text


def _kind(compared: Compared) -> Kind:
    return resolve(compared.scheme).kind


def _routes_one_by_one(compared: Compared) -> bool:
    """Return whether a message can be routed before the next one is known."""
    return _kind(compared) not in (Kind.PLANNED, Kind.LOOK_AHEAD)
