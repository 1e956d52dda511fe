"""The interface of a scheme: a rule without state. The state that it works on belongs to one sender."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from keyspread.kernels import weighted_routing
from keyspread.kernels.weighted_routing import route_weighted, route_weighted_by_levels
from keyspread.online.settings import SenderSettings
from keyspread.schemes.state import State

Keys = npt.NDArray[np.uint64]
Workers = npt.NDArray[np.int32]
Weights = npt.NDArray[np.int64]
Shares = npt.NDArray[np.float64]

_FEW = 8  # candidates: it is quicker to look at each than to search levels


class Scheme(ABC):
    """A rule that picks the worker of a message from the state of one sender. Each file of this folder holds one."""

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    recommended: ClassVar[dict[str, Any]] = {}  # options to set unless there is a reason not to
    tracks_head: ClassVar[bool] = False
    needs_choices: ClassVar[bool] = False
    sizes_each_key: ClassVar[bool] = False  # each hot key has its own number of workers
    hot: ClassVar[int] = weighted_routing.CHOICES  # the rule for weights or capacities

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

    def route_uneven(self, state: State, keys: Keys, weights: Weights, out: Workers) -> None:
        """Route messages that have these weights, or workers that have different capacities."""
        out[:] = -1
        self.route_marked_uneven(state, keys, weights, out)

    def route_marked_uneven(self, state: State, keys: Keys, weights: Weights, out: Workers) -> None:
        """Route messages whose entry in `out` says whether they are hot."""
        everyone = self.hot == weighted_routing.CHOICES and state.choices >= state.settings.workers
        hot = weighted_routing.ANYONE if everyone else self.hot
        rules = weighted_routing.Rules(hot, state.choices, state.unit, state.turn)
        loads, capacities, identity, messages = state.balance.loads, state.capacities, state.identity, state.messages
        state.levels_are_current = False
        if not self._has_many_candidates(state, hot):
            state.turn = route_weighted(keys, weights, out, messages, identity, loads, capacities, rules)
            return
        relative = state.relative_loads(weights)
        route_weighted_by_levels(
            keys, weights, out, messages, identity, loads, relative, capacities, state.candidates, rules
        )
        state.shown_at = messages + keys.size

    def _has_many_candidates(self, state: State, hot: int) -> bool:
        """Return whether finding the least loaded candidate of a hot key by levels is quicker than a look at each."""
        if not self.tracks_head or hot == weighted_routing.IN_TURN:
            return False
        few = max(_FEW, state.balance.levels.shape[1] // 2)
        return hot != weighted_routing.CHOICES or state.choices > few
