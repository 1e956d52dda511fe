"""Key grouping: the hash of a key decides its worker. The skew of the keys becomes the skew of the workers."""

from keyspread.kernels.routing import route_by_key
from keyspread.kernels.weighted_routing import route_weighted_by_key
from keyspread.online.settings import SenderSettings
from keyspread.schemes.scheme import Keys, Scheme, Shares, Weights, Workers
from keyspread.schemes.state import State


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

    def route_uneven(self, state: State, keys: Keys, weights: Weights, out: Workers) -> None:
        """Route every message to the first candidate of its key; a worker is one in proportion to its capacity."""
        route_weighted_by_key(keys, weights, out, state.identity, state.balance.loads, state.capacities)
