"""Round robin for the head, without looking at loads: the paper's baseline for W-Choices, with the same memory."""

from keyspread.kernels import weighted_routing
from keyspread.kernels.routing import route_head_in_turn
from keyspread.online.settings import SenderSettings
from keyspread.schemes.head_and_tail import HeadAndTail
from keyspread.schemes.scheme import Keys, Shares, Workers
from keyspread.schemes.state import State


class RoundRobin(HeadAndTail):
    """Hot messages go to all workers in turn; cold keys to the less loaded of two."""

    name, aliases = "round-robin", ("rr",)
    hot = weighted_routing.IN_TURN

    def choices(self, settings: SenderSettings, head: Shares) -> int:
        """Return the number of workers."""
        return settings.workers

    def route_marked(self, state: State, keys: Keys, out: Workers) -> None:
        """Route each hot message to the next worker in turn."""
        state.turn = int(route_head_in_turn(keys, out, state.messages, state.identity, state.balance.loads, state.turn))
