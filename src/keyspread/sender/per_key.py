"""Per-key choices: every hot key has as many workers as its own share needs.

With D-Choices all hot keys have the same number of workers, which the hottest key decides. Here each hot key has its
own list of workers, and a list grows when the loads show that it is too short. `docs/how-it-works.md` explains why
that is enough.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from keyspread.kernels import weighted
from keyspread.kernels.balance import regroup
from keyspread.kernels.candidate_lists import (
    find_lists,
    measure_lists,
    route_head_to_own_few,
    route_head_to_own_row,
    write_lists,
)
from keyspread.sender.schemes import HeadAndTail, Keys, Shares, Workers
from keyspread.sender.settings import SenderSettings
from keyspread.sender.state import State

Counters = npt.NDArray[np.int64]
Lengths = npt.NDArray[np.int64]
"""Numbers of workers on lists."""

_SLACK = 1.25  # a quarter more workers than the share fills: other hot keys use the same workers
_STEP = 8  # a list that is too short grows by 1/8
_STICKY = 2  # a list that is up to twice as long as needed stays as it is
_CHANCE = 0.75  # times the root of a load: a load that is above the mean by no more than that may be chance
_CAUTION = 5  # if all of the past is forgotten, lists are longer by this factor, and by this many workers
_FEW = 6  # workers: if no list is longer, comparing them one by one is faster than rows of bits


class PerKey(HeadAndTail):
    """A hot key with share p has about 1.25·p·n distinct workers, and the least loaded one gets the message.

    A cold key goes to the first of two candidates, or to the second if the first is too far ahead of it.
    """

    name, aliases = "per-key", ("pk",)
    options = ("tolerance", *HeadAndTail.options)
    recommended: ClassVar[dict[str, Any]] = {"half_life": "auto"}
    sizes_each_key = True
    hot = weighted.OWN_LIST

    def choices(self, settings: SenderSettings, head: Shares) -> int:
        """Return the number of workers of the hottest key."""
        return int(self.choices_of_each(settings, head).max(initial=min(2, settings.workers)))

    def choices_of_each(self, settings: SenderSettings, head: Shares) -> Workers:
        """Return the length of each list; that of the hottest key at its longest."""
        lengths = _lengths(head, settings.workers)
        lengths[:1] = np.maximum(lengths[:1], _workers_to_reach(head[lengths > 2].sum(), settings.workers))
        return lengths.astype(np.int32)

    def review(self, state: State) -> None:
        """Compute the lists of all hot keys. Together they reach as many workers as the head needs."""
        assert state.heavy_hitters is not None
        workers, total = state.settings.workers, max(1, state.heavy_hitters.total)
        counters, keys, counts = _hottest_first(state)
        # A cautious estimate, one deviation below the count: a message on one worker too many cannot be taken back.
        shares = (counts - np.sqrt(counts * state.unit)) / total
        remembered = total / state.unit
        forgotten = 1 - remembered / max(remembered, state.messages)
        lengths = _adjusted(state, counters, keys, _lengths(shares, workers, forgotten))
        several = lengths > min(2, workers)
        counters, keys, lengths = counters[several], keys[several], lengths[several]
        needed = max(_workers_to_reach(shares[several].sum(), workers), math.ceil(forgotten * workers))
        write_lists(state.candidates, counters, keys, lengths, needed, state.identity, state.balance.loads)
        state.choices = int(lengths.max(initial=min(2, workers)))

    def find_counters(self, state: State) -> None:
        """Find the list of every counter again."""
        assert state.heavy_hitters is not None
        find_lists(state.candidates, state.heavy_hitters.arrays)

    def saved_lists(self, state: State) -> dict[str, npt.NDArray[Any]]:
        """Return the owners and lengths of the lists: they depend on the past, so they cannot be computed again."""
        counters = np.flatnonzero(state.candidates.row_of >= 0)
        keys = state.candidates.owner[state.candidates.row_of[counters]]
        lengths, _ = _measured(state, counters, keys)
        return {"listed": counters, "list_keys": keys, "list_sizes": lengths}

    def restore_lists(self, state: State, lists: Mapping[str, npt.NDArray[Any]]) -> None:
        """Write the lists that `saved_lists` returned."""
        counters, keys, lengths = lists["listed"], lists["list_keys"], lists["list_sizes"]
        write_lists(state.candidates, counters, keys, lengths, 0, state.identity, state.balance.loads)

    def route_marked(self, state: State, keys: Keys, out: Workers) -> None:
        """Route each hot message to the least loaded worker of its key's list."""
        balance, identity, messages = state.balance, state.identity, state.messages
        if state.choices <= _FEW and state.choices < balance.loads.size:
            route_head_to_own_few(keys, out, messages, identity, balance.loads, state.candidates)
            state.levels_are_current = False
            return
        if not state.levels_are_current:
            regroup(balance)
            state.levels_are_current = True
        route_head_to_own_row(keys, out, messages, identity, balance, state.candidates)


def _hottest_first(state: State) -> tuple[Counters, Keys, Counters]:
    """Return the counters, the hashes and the counts of all keys that are certainly hot."""
    assert state.heavy_hitters is not None
    summary, used = state.heavy_hitters.arrays, len(state.heavy_hitters)
    least = state.settings.threshold * state.heavy_hitters.total + state.margin * state.unit
    hot = np.flatnonzero(summary.counts[:used] >= least)
    hot = hot[np.lexsort((summary.keys[hot], -summary.counts[hot]))]
    return hot, summary.keys[hot], summary.counts[hot]


def _lengths(shares: Shares, workers: int, forgotten: float = 0.0) -> Lengths:
    """Return ⌈1.25·p·n⌉ + 1, at most all workers; more if the past was forgotten, since shares are then known late."""
    caution = _CAUTION * forgotten
    # 0.08 * 100 * 1.25 is 10, not 10.000000000000002
    lengths = np.ceil(_SLACK * (1 + caution) * shares * workers + caution - 1e-9) + 1
    return np.asarray(np.minimum(lengths, workers).astype(np.int64))


def _measured(state: State, counters: Counters, keys: Keys) -> tuple[Lengths, Counters]:
    """Return the length of each key's list now, and the least load of its workers; 0 and 0 without a list."""
    lengths, least = np.zeros(counters.size, np.int64), np.zeros(counters.size, np.int64)
    measure_lists(state.candidates, counters, keys, state.balance.loads, lengths, least)
    return lengths, least


def _adjusted(state: State, counters: Counters, keys: Keys, lengths: Lengths) -> Lengths:
    """Return the lengths of the lists: those that are long enough stay, and the hottest that is too short grows.

    A list is too short if its least loaded worker is above the mean by more than the tolerance and chance. Its key then
    overloads a set of workers together with other keys whose candidates are all in that set. Only a longer list helps.
    """
    loads = state.balance.loads
    current, least = _measured(state, counters, keys)
    adjusted = np.where(current <= _STICKY * lengths, np.maximum(lengths, current), lengths)
    mean = loads.mean()
    too_much = mean + state.settings.tolerance * loads.sum() + _CHANCE * math.sqrt(mean * state.unit)
    short = np.flatnonzero((least > too_much) & (adjusted == current))[:1]
    adjusted[short] = np.minimum(current[short] + np.maximum(1, current[short] // _STEP), loads.size)
    return np.asarray(adjusted)


def _workers_to_reach(head: float, workers: int) -> int:
    """Return the smallest number of workers that can hold the head and the tail keys with both candidates on them.

    A fraction c of the workers can if head + c²·tail <= c, which holds from c = head / tail on. If the tail is less
    than half of the messages, no smaller fraction can, and the head must reach all workers.
    """
    return min(workers, math.ceil(head / max(1 - head, 1e-9) * workers - 1e-9))
