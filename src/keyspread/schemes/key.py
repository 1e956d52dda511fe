"""Key grouping: the hash of a key decides its worker. The skew of the keys becomes the skew of the workers."""

from keyspread.kernels import weighted_routing
from keyspread.kernels.routing import route_by_key
from keyspread.online.settings import Settings
from keyspread.schemes.scheme import Keys, Scheme, Shares, Workers
from keyspread.schemes.state import State


class KeyGrouping(Scheme):
    """Every key has one worker."""

    name, aliases = "key", ("kg",)
    cold = weighted_routing.FIRST

    def choices(self, settings: Settings, head: Shares) -> int:
        """Return 1."""
        return 1

    def route(self, state: State, keys: Keys, out: Workers) -> None:
        """Route every message to the first candidate of its key."""
        route_by_key(keys, out, state.identity, state.balance.loads)
