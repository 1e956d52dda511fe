"""Which of the compared schemes to use, if any: a difference that chance explains is no reason to use one."""

from collections.abc import Sequence
from dataclasses import dataclass

from keyspread.evaluation.chance import busiest_by_chance
from keyspread.evaluation.compare import Compared, beats
from keyspread.schemes import Kind, resolve
from keyspread.schemes.key import KeyGrouping

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
