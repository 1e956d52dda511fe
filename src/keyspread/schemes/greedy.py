"""Greedy-d: a hot key may use a fixed, given number of workers. Trying several finds the smallest d that is enough."""

from keyspread.online.settings import SenderSettings
from keyspread.schemes.head_and_tail import HeadAndTail
from keyspread.schemes.scheme import Shares


class Greedy(HeadAndTail):
    """Hot keys go to the least loaded of `choices` hashed workers; cold keys to the less loaded of two."""

    name = "greedy"
    needs_choices = True

    def choices(self, settings: SenderSettings, head: Shares) -> int:
        """Return the given number, at most all workers."""
        assert settings.fixed_choices is not None
        return min(settings.fixed_choices, settings.workers)
