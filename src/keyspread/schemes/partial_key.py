"""Partial key grouping (PKG): the less loaded of two candidates. Balanced while no key has over 2/n of the messages."""

from keyspread.kernels.routing import route_least_of_two
from keyspread.online.settings import SenderSettings
from keyspread.schemes.scheme import Keys, Scheme, Shares, Workers
from keyspread.schemes.state import State


class PartialKeyGrouping(Scheme):
    """Every key has at most two workers."""

    name, aliases = "partial-key", ("pkg",)

    def choices(self, settings: SenderSettings, head: Shares) -> int:
        """Return 2, or 1 if there is one worker."""
        return min(2, settings.workers)

    def route(self, state: State, keys: Keys, out: Workers) -> int:
        """Route every message to the less loaded of its key's two candidates."""
        route_least_of_two(keys, out, state.messages, state.identity, state.balance.loads)
        return keys.size
