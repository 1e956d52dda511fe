"""The interface of a scheme: a rule without state. The state that it works on belongs to one sender."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from keyspread.kernels import weighted
from keyspread.kernels.balance import regroup
from keyspread.kernels.mixing import find_choices
from keyspread.kernels.routing import (
    route_by_key,
    route_head_in_turn,
    route_head_to_anyone,
    route_head_to_few,
    route_head_to_row,
    route_least_of_two,
)
from keyspread.kernels.summary import observe, observe_weighted
from keyspread.sender import decay
from keyspread.sender.settings import SenderSettings
from keyspread.sender.state import State

Keys = npt.NDArray[np.uint64]
Workers = npt.NDArray[np.int32]
Weights = npt.NDArray[np.int64]
Shares = npt.NDArray[np.float64]

_FEW = 8  # candidates: it is quicker to look at each than to search levels


class Scheme(ABC):
    """A rule that picks the worker of a message from the state of one sender. Each file of this folder holds one."""

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[tuple[str, ...]] = ("half_life",)
    recommended: ClassVar[dict[str, Any]] = {}  # options to set unless there is a reason not to
    tracks_head: ClassVar[bool] = False
    needs_choices: ClassVar[bool] = False
    sizes_each_key: ClassVar[bool] = False  # each hot key has its own number of workers
    hot: ClassVar[int] = weighted.CHOICES  # the rule for messages with weights

    @abstractmethod
    def choices(self, settings: SenderSettings, head: Shares) -> int:
        """Return how many workers a hot key may use, for a head with these shares; without a head, any key."""

    def choices_of_each(self, settings: SenderSettings, head: Shares) -> Workers:
        """Return how many workers each key of a head may use; `head` has the shares, hottest first."""
        return np.full(head.size, self.choices(settings, head), np.int32)

    def review(self, state: State) -> None:  # noqa: B027 - most schemes have nothing to do
        """Update the workers of every hot key, if each key has its own number of them."""

    def find_counters(self, state: State) -> None:  # noqa: B027
        """Find the counters of the hot keys again, after fading has moved them."""

    def saved_lists(self, state: State) -> dict[str, npt.NDArray[Any]]:
        """Return what a snapshot needs besides the fields of the state."""
        return {}

    def restore_lists(self, state: State, lists: Mapping[str, npt.NDArray[Any]]) -> None:  # noqa: B027
        """Restore what `saved_lists` returned."""

    @abstractmethod
    def route(self, state: State, keys: Keys, out: Workers) -> int:
        """Write the worker of every message to `out` and add the messages to the loads.

        Return how many were routed: not all if counts must fade before the next one.
        """

    def route_weighted(self, state: State, keys: Keys, weights: Weights, out: Workers) -> None:
        """Route messages that have these weights."""
        out[:] = -1
        self.route_marked_weighted(state, keys, weights, out)

    def route_ignoring_weights(self, state: State, keys: Keys, weights: Weights, out: Workers) -> None:
        """Route by a rule that ignores loads, which then ignores weights too, and add the weights to the loads."""
        before = state.balance.loads.copy()
        self.route(state, keys, out)
        state.balance.loads[:] = before
        np.add.at(state.balance.loads, out, weights)

    def route_marked_weighted(self, state: State, keys: Keys, weights: Weights, out: Workers) -> None:
        """Route messages whose entry in `out` says whether they are hot."""
        everyone = self.hot == weighted.CHOICES and state.choices >= state.settings.workers
        hot = weighted.ANYONE if everyone else self.hot
        rules = weighted.Rules(hot, state.choices, state.unit, state.turn)
        loads, identity, messages = state.balance.loads, state.identity, state.messages
        state.levels_are_current = False
        if not self._has_many_candidates(state, hot):
            state.turn = weighted.route_weighted(keys, weights, out, messages, identity, loads, rules)
            return
        balance = state.current_weighted_balance(weights)
        weighted.route_weighted_by_levels(keys, weights, out, messages, identity, balance, state.candidates, rules)
        state.shown_at = messages + keys.size

    def _has_many_candidates(self, state: State, hot: int) -> bool:
        """Return whether finding the least loaded candidate of a hot key by levels is quicker than a look at each."""
        if not self.tracks_head or hot == weighted.IN_TURN:
            return False
        few = max(_FEW, state.balance.levels.shape[1] // 2)
        return hot != weighted.CHOICES or state.choices > few


# Key grouping: the hash of a key decides its worker. The skew of the keys becomes the skew of the workers.


class KeyGrouping(Scheme):
    """Every key has one worker."""

    name, aliases = "key", ("kg",)

    def choices(self, settings: SenderSettings, head: Shares) -> int:
        """Return 1."""
        return 1

    def route(self, state: State, keys: Keys, out: Workers) -> int:
        """Route every message to the first candidate of its key."""
        route_by_key(keys, out, state.identity, state.balance.loads)
        return keys.size

    def route_weighted(self, state: State, keys: Keys, weights: Weights, out: Workers) -> None:
        """Route every message to the first candidate of its key, whatever it weighs."""
        self.route_ignoring_weights(state, keys, weights, out)


# Partial key grouping (PKG): the less loaded of two candidates. Balanced while no key has over 2/n of the messages.


class PartialKeyGrouping(Scheme):
    """Every key has at most two workers."""

    name, aliases = "partial-key", ("pkg",)

    def choices(self, settings: SenderSettings, head: Shares) -> int:
        """Return 2, or 1 if there is one worker."""
        return min(2, settings.workers)

    def route(self, state: State, keys: Keys, out: Workers) -> int:
        """Route every message to the less loaded of its key's two candidates."""
        route_least_of_two(keys, out, state.messages, state.identity, state.balance.loads)
        return keys.size


# Shuffle grouping: all workers in turn, for any key. The balance is perfect, with up to n replicas per key.


class ShuffleGrouping(Scheme):
    """Loads differ by at most one message."""

    name, aliases = "shuffle", ("sg",)

    def choices(self, settings: SenderSettings, head: Shares) -> int:
        """Return the number of workers."""
        return settings.workers

    def route(self, state: State, keys: Keys, out: Workers) -> int:
        """Route to all workers in turn; where to start differs between senders."""
        workers = state.settings.workers
        out[:] = (state.turn + np.arange(keys.size)) % workers
        state.turn = (state.turn + keys.size) % workers
        state.balance.loads[:] += np.bincount(out, minlength=workers)
        return keys.size

    def route_weighted(self, state: State, keys: Keys, weights: Weights, out: Workers) -> None:
        """Route to all workers in turn, whatever the messages weigh."""
        self.route_ignoring_weights(state, keys, weights, out)


# The base of schemes that treat hot keys differently: count every message, decide whether it is hot, route it.
#
# `route` is Algorithm 1 of the paper. Which workers a hot key may use is up to each scheme.


class HeadAndTail(Scheme):
    """A cold key goes to the less loaded of two candidates, as in PKG; a hot key to the least loaded of `choices`."""

    tracks_head = True
    options = ("threshold", "counters", *Scheme.options)

    def route(self, state: State, keys: Keys, out: Workers) -> int:
        """Route by Algorithm 1."""
        assert state.heavy_hitters is not None
        # First `out` holds the counter of each hot message, or -1 for a cold one; then the worker.
        if state.mark is None:
            observe(state.heavy_hitters.arrays, keys, out, state.settings.threshold, state.margin)
            seen = keys.size
        else:
            seen = decay.observe(state, keys, out)
        self.route_marked(state, keys[:seen], out[:seen])
        return seen

    def route_weighted(self, state: State, keys: Keys, weights: Weights, out: Workers) -> None:
        """Route messages that have these weights."""
        assert state.heavy_hitters is not None
        state.heavy_hitters.make_room_for_weights()
        summary, threshold = state.heavy_hitters.arrays, state.settings.threshold
        observe_weighted(summary, keys, weights, out, threshold, state.margin)
        self.route_marked_weighted(state, keys, weights, out)

    def route_marked(self, state: State, keys: Keys, out: Workers) -> None:
        """Route messages whose entry in `out` says whether they are hot."""
        balance, identity, messages = state.balance, state.identity, state.messages
        if state.choices <= max(4, balance.levels.shape[1] // 4) and state.choices < balance.loads.size:
            route_head_to_few(keys, out, messages, identity, balance.loads, state.choices)
            state.levels_are_current = False
            return
        if not state.levels_are_current:
            regroup(balance)
            state.levels_are_current = True
        if state.choices >= balance.loads.size:
            route_head_to_anyone(keys, out, messages, identity, balance, state.candidates)
        else:
            route_head_to_row(keys, out, messages, identity, balance, state.candidates, state.choices)


# Round robin for the head, without looking at loads: the paper's baseline for W-Choices, with the same memory.


class RoundRobin(HeadAndTail):
    """Hot messages go to all workers in turn; cold keys to the less loaded of two."""

    name, aliases = "round-robin", ("rr",)
    hot = weighted.IN_TURN

    def choices(self, settings: SenderSettings, head: Shares) -> int:
        """Return the number of workers."""
        return settings.workers

    def route_marked(self, state: State, keys: Keys, out: Workers) -> None:
        """Route each hot message to the next worker in turn."""
        state.turn = int(route_head_in_turn(keys, out, state.messages, state.identity, state.balance.loads, state.turn))


# W-Choices: a hot key may use every worker. The best balance of an online scheme, at up to n replicas per hot key.


class WChoices(HeadAndTail):
    """Hot keys go to the least loaded of all workers; cold keys to the less loaded of two."""

    name, aliases = "w-choices", ("wc",)

    def choices(self, settings: SenderSettings, head: Shares) -> int:
        """Return the number of workers."""
        return settings.workers


# D-Choices: a hot key may use d workers, where d is the smallest number that balances the head so far (Sec. 4.1).


class DChoices(HeadAndTail):
    """Hot keys go to the least loaded of d hashed workers; cold keys to the less loaded of two."""

    name, aliases = "d-choices", ("dc",)
    options = ("tolerance", *HeadAndTail.options)

    def choices(self, settings: SenderSettings, head: Shares) -> int:
        """Return d; with d = n this is W-Choices."""
        return int(find_choices(np.cumsum(head), settings.workers, settings.tolerance))


# Greedy-d: a hot key may use a fixed, given number of workers. Trying several finds the smallest d that is enough.


class Greedy(HeadAndTail):
    """Hot keys go to the least loaded of `choices` hashed workers; cold keys to the less loaded of two."""

    name = "greedy"
    options = ("choices", *HeadAndTail.options)
    needs_choices = True

    def choices(self, settings: SenderSettings, head: Shares) -> int:
        """Return the given number, at most all workers."""
        assert settings.fixed_choices is not None
        return min(settings.fixed_choices, settings.workers)
