"""Shuffle grouping: all workers in turn, for any key. The balance is perfect, with up to n replicas per key."""

import numpy as np

from keyspread.online.settings import SenderSettings
from keyspread.schemes.scheme import Keys, Scheme, Shares, Weights, Workers
from keyspread.schemes.state import State


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

    def route_uneven(self, state: State, keys: Keys, weights: Weights, out: Workers) -> None:
        """Route to all workers in turn: a scheme that ignores loads ignores weights and capacities too."""
        before = state.balance.loads.copy()
        self.route(state, keys, out)
        state.balance.loads[:] = before
        np.add.at(state.balance.loads, out, weights)
