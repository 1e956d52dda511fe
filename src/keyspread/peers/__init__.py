"""What others published or do by hand, each by its own rule, to be compared with: one short file a peer.

`simulate` and `compare` take their names. They are no schemes of a `Sender`: nothing here is meant to run a job.
"""

from keyspread.peers.fanout import HotKeyFanout
from keyspread.peers.fish import Fish
from keyspread.peers.peer import Peer
from keyspread.peers.salting import Salting

ALL_PEERS: tuple[type[Peer], ...] = (Fish, HotKeyFanout, Salting)

PEERS: tuple[str, ...] = tuple(peer.name for peer in ALL_PEERS)
"""Their names."""


__all__ = ["ALL_PEERS", "PEERS", "Peer"]
