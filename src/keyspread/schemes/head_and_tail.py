"""The base of schemes that treat hot keys differently: count every message, decide whether it is hot, route it.

`route` is Algorithm 1 of the paper. Which workers a hot key may use is up to each scheme.
"""

from keyspread.kernels.balance import regroup
from keyspread.kernels.routing import route_head_to_anyone, route_head_to_few, route_head_to_row
from keyspread.kernels.summary import observe, observe_weighted
from keyspread.online import decay
from keyspread.schemes.scheme import Keys, Scheme, Weights, Workers
from keyspread.schemes.state import State


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
