"""What others published or do by hand, each by its own rule, to be compared with: one short file a peer.

`simulate` and `compare` take their names. They are no schemes of a `Sender`: nothing here is meant to run a job.
"""

from keyspread.peers.fanout import HotKeyFanout
from keyspread.peers.fish import Fish
from keyspread.peers.peer import Peer
from keyspread.peers.salting import Salting

_ALL: tuple[type[Peer], ...] = (Fish, HotKeyFanout, Salting)

PEERS: tuple[str, ...] = tuple(peer.name for peer in _ALL)
"""Their names."""


def find_peer(name: str) -> type[Peer] | None:
    """Give the peer of this name, in any case; None if there is none."""
    return next((peer for peer in _ALL if isinstance(name, str) and name.lower() == peer.name), None)


__all__ = ["PEERS", "Peer", "find_peer"]
