"""Published alternatives, each by its own rule, to compare our schemes with. There is one short file per peer.

`simulate` and `compare` take their names. A `Sender` does not: peers are for measurements, not for jobs.
"""

from keyspread.peers.fanout import HotKeyFanout
from keyspread.peers.fish import Fish
from keyspread.peers.peer import Peer
from keyspread.peers.salting import Salting

ALL_PEERS: tuple[type[Peer], ...] = (Fish, HotKeyFanout, Salting)

PEERS: tuple[str, ...] = tuple(peer.name for peer in ALL_PEERS)
"""The names of all peers."""


__all__ = ["ALL_PEERS", "PEERS", "Peer"]
