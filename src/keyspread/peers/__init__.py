"""Published alternatives, each by its own rule, to compare our schemes with. There is one short file per peer.

`simulate` and `compare` take their names. A `Sender` does not: peers are for measurements, not for jobs.
"""

from keyspread.peers.fanout import HotKeyFanout
from keyspread.peers.fish import Fish
from keyspread.peers.peer import Peer
from keyspread.peers.salting import Salting

_ALL: tuple[type[Peer], ...] = (Fish, HotKeyFanout, Salting)

PEERS: tuple[str, ...] = tuple(peer.name for peer in _ALL)
"""The names of all peers."""


def find_peer(name: str) -> type[Peer] | None:
    """Return the peer of this name, in any case; None if there is none."""
    return next((peer for peer in _ALL if isinstance(name, str) and name.lower() == peer.name), None)


__all__ = ["PEERS", "Peer", "find_peer"]
