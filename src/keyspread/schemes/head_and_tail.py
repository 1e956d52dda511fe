"""Schemes that treat the head apart: count every message, tell hot from cold, route.

A reader of the paper finds Algorithm 1 in `route`. What a hot key may use is each scheme's own.
"""

from keyspread.kernels.balance import regroup
from keyspread.kernels.routing import route_head_to_anyone, route_head_to_few, route_head_to_row
from keyspread.kernels.summary import observe, observe_weighted
from keyspread.schemes.scheme import Keys, Scheme, Weights, Workers
from keyspread.schemes.state import State


class HeadAndTail(Scheme):
    """Cold keys: least loaded of two candidates, as in PKG. Hot keys: least loaded of `choices`."""

    tracks_head = True

    def route(self, state: State, keys: Keys, out: Workers) -> None:
        """Route by Algorithm 1."""
        assert state.heavy_hitters is not None
        # `out` first holds what the heavy hitters say of each message (-1: cold), then its worker.
        observe(state.heavy_hitters.arrays, keys, out, state.settings.threshold, state.margin)
        self.route_marked(state, keys, out)

    def route_uneven(self, state: State, keys: Keys, weights: Weights, out: Workers) -> None:
        """Do the same for messages of these weights, or workers of different capacity."""
        assert state.heavy_hitters is not None
        summary, threshold = state.heavy_hitters.arrays, state.settings.threshold
        observe_weighted(summary, keys, weights, out, threshold, state.margin)
        self.route_marked_uneven(state, keys, weights, out)

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
