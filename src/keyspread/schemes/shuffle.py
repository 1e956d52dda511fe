"""Shuffle grouping: all workers in turn, whatever the key. Perfect balance, and up to n replicas of every key."""

import numpy as np

from keyspread.online.settings import Settings
from keyspread.schemes.scheme import Keys, Scheme, Shares, State, Weights, Workers


class ShuffleGrouping(Scheme):
    """Loads differ by at most one message."""

    name, aliases = "shuffle", ("sg",)

    def choices(self, settings: Settings, head: Shares) -> int:
        """All workers."""
        return settings.workers

    def route(self, state: State, keys: Keys, out: Workers) -> None:
        """Go round, from a start that differs from sender to sender."""
        workers = state.settings.workers
        out[:] = (state.turn + np.arange(keys.size)) % workers
        state.turn = (state.turn + keys.size) % workers
        state.balance.loads[:] += np.bincount(out, minlength=workers)

    def route_uneven(self, state: State, keys: Keys, weights: Weights, out: Workers) -> None:
        """Go round all the same: whoever is blind to loads is blind to weights and capacities."""
        before = state.balance.loads.copy()
        self.route(state, keys, out)
        state.balance.loads[:] = before
        np.add.at(state.balance.loads, out, weights)
