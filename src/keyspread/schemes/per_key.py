"""Per-key choices: every hot key has as many workers as its own share needs, by what the sender sees.

D-Choices gives all hot keys the same number, sized for the hottest. Here each has a list of its own, and a list
becomes longer where the loads show that it is too short. `docs/how-it-works.md` tells why that is enough.
"""

import math
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from keyspread.kernels import weighted_routing
from keyspread.kernels.balance import regroup
from keyspread.kernels.candidate_lists import (
    allot,
    find_owners,
    measure,
    route_head_to_own_few,
    route_head_to_own_row,
)
from keyspread.online.settings import Settings
from keyspread.schemes.head_and_tail import HeadAndTail
from keyspread.schemes.scheme import Keys, Shares, State, Workers

Counters = npt.NDArray[np.int64]
Sizes = npt.NDArray[np.float64]
"""Of lists, in workers of mean capacity."""

_SLACK = 1.25  # a quarter more room than the share fills: other hot keys are on the same workers
_STEP = 8  # a list that is too short grows by an eighth
_STICKY = 2  # a list that is at most twice too long stays as it is
_CHANCE = 0.75  # of the root of a load: what lies above the mean by no more than that may be chance
_CAUTION = 5  # where everything changes, lists are longer by so many times, and so many workers
_FEW = 6  # workers: if no list is longer, looking at each worker is quicker than rows of bits


class PerKey(HeadAndTail):
    """A hot key with share p has about 1.25·p·n distinct workers, of which the least loaded gets the message.

    A cold key has two: the first, and the second for when the first is ahead.
    """

    name, aliases = "per-key", ("pk",)
    recommended: ClassVar[dict[str, Any]] = {"half_life": "auto"}
    sizes_each_key = True
    cold, hot = weighted_routing.FIRST_OR_SECOND, weighted_routing.OWN_LIST

    def choices(self, settings: Settings, head: Shares) -> int:
        """As many as the hottest key may use."""
        return int(self.choices_of_each(settings, head).max(initial=min(2, settings.workers)))

    def choices_of_each(self, settings: Settings, head: Shares) -> Workers:
        """Give the length of each list; for the hottest, whom it must take in at most."""
        sizes = _sizes(head, settings.workers)
        sizes[:1] = np.maximum(sizes[:1], _workers_to_reach(head[sizes > 2].sum(), settings.workers))
        return sizes.astype(np.int32)

    def review(self, state: State) -> None:
        """Size the lists of all hot keys anew. Together they reach as many workers as the head needs."""
        assert state.heavy_hitters is not None
        workers, total = state.settings.workers, max(1, state.heavy_hitters.total)
        counters, keys, counts = _hottest_first(state)
        # The share that a key has for sure, up to chance: what was sent to one worker too many cannot be taken back.
        shares = (counts - np.sqrt(counts * state.unit)) / total
        known = total / state.unit
        forgotten = 1 - known / max(known, state.messages)
        sizes = _lengthened(state, counters, keys, _sizes(shares, workers, forgotten))
        several = sizes > min(2, workers)
        counters, keys, sizes = counters[several], keys[several], sizes[several]
        needed = 1.0 * max(_workers_to_reach(shares[several].sum(), workers), math.ceil(forgotten * workers))
        allot(state.candidates, counters, keys, sizes, needed, state.identity, state.balance.loads, state.fleet)
        state.choices = math.ceil(sizes.max(initial=min(2, workers)))

    def faded(self, state: State) -> None:
        """Find the lists again."""
        assert state.heavy_hitters is not None
        find_owners(state.candidates, state.heavy_hitters.arrays)

    def route_marked(self, state: State, keys: Keys, out: Workers) -> None:
        """Route a hot key to the least loaded of its list."""
        balance, identity, messages = state.balance, state.identity, state.messages
        if state.choices <= _FEW and state.choices < balance.loads.size:
            route_head_to_own_few(keys, out, messages, identity, balance.loads, state.candidates)
            state.levels_are_current = False
            return
        if not state.levels_are_current:
            regroup(balance)
            state.levels_are_current = True
        route_head_to_own_row(keys, out, messages, identity, balance, state.candidates)


def lists_of(state: State) -> dict[str, npt.NDArray[Any]]:
    """Give what is needed to write the lists again: they cannot be computed, for they depend on the past."""
    counters = np.flatnonzero(state.candidates.row_of >= 0)
    keys = state.candidates.owner[state.candidates.row_of[counters]]
    sizes, least = np.zeros(counters.size), np.zeros(counters.size)
    measure(state.candidates, counters, keys, state.balance.loads, state.fleet, sizes, least)
    return {"listed": counters, "list_keys": keys, "list_sizes": sizes}


def take_lists(state: State, lists: dict[str, npt.NDArray[Any]]) -> None:
    """Write the lists that `lists_of` gave."""
    counters, keys, sizes = lists["listed"], lists["list_keys"], lists["list_sizes"]
    allot(state.candidates, counters, keys, sizes, 0.0, state.identity, state.balance.loads, state.fleet)


def _hottest_first(state: State) -> tuple[Counters, Keys, Counters]:
    """Give all keys that are hot for sure: their counters, themselves and their counts."""
    assert state.heavy_hitters is not None
    summary, used = state.heavy_hitters.arrays, len(state.heavy_hitters)
    least = state.settings.threshold * state.heavy_hitters.total + state.margin * state.unit
    hot = np.flatnonzero(summary.counts[:used] >= least)
    hot = hot[np.lexsort((summary.keys[hot], -summary.counts[hot]))]
    return hot, summary.keys[hot], summary.counts[hot]


def _sizes(shares: Shares, workers: int, forgotten: float = 0.0) -> Sizes:
    """Give ⌈1.25·p·n⌉ + 1, and all workers at most; more where the past was forgotten and shares are known late."""
    caution = _CAUTION * forgotten
    # 0.08 * 100 * 1.25 is 10, not 10.000000000000002
    wanted = np.ceil(_SLACK * (1 + caution) * shares * workers + caution - 1e-9) + 1
    sizes: Sizes = np.minimum(wanted, workers)
    return sizes


def _lengthened(state: State, counters: Counters, keys: Keys, sizes: Sizes) -> Sizes:
    """Keep lists that are long enough, and lengthen that of the hottest key for which the loads say that it is not.

    A key whose least loaded worker lies above the mean, by more than the tolerance and chance, is one of those that
    overload a set of workers with all of their candidates in it. No dealing can mend that, only a longer list.
    """
    loads = state.balance.loads
    had, least = np.zeros(counters.size), np.zeros(counters.size)
    measure(state.candidates, counters, keys, loads, state.fleet, had, least)
    longer = np.where(had <= _STICKY * sizes, np.maximum(sizes, had), sizes)
    mean = loads.mean()
    too_much = mean + state.settings.tolerance * loads.sum() + _CHANCE * math.sqrt(mean * state.unit)
    short = np.flatnonzero((least > too_much) & (longer == had))[:1]
    longer[short] = np.minimum(had[short] + np.maximum(1, had[short] // _STEP), loads.size)
    return np.asarray(longer)


def _workers_to_reach(head: float, workers: int) -> int:
    """Give the fewest workers that hold the head and the tail's keys with both candidates among them.

    A part c of all workers does so if head + c²·tail <= c, that is from c = head / tail on. Beyond it the tail fills
    the rest. A tail of less than a half cannot, and the head must reach everyone.
    """
    return min(workers, math.ceil(head / max(1 - head, 1e-9) * workers - 1e-9))
