"""Greedy-d: a hot key may use a fixed, given number of workers. With it one finds the least d that would have done."""

from keyspread.online.settings import Settings
from keyspread.schemes.head_and_tail import HeadAndTail
from keyspread.schemes.scheme import Shares


class Greedy(HeadAndTail):
    """Hot keys go to the least loaded of `choices` hashed workers; cold keys to the less loaded of two."""

    name = "greedy"
    needs_choices = True

    def choices(self, settings: Settings, head: Shares) -> int:
        """As many as given."""
        assert settings.fixed_choices is not None
        return min(settings.fixed_choices, settings.workers)
