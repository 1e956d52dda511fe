"""W-Choices: a hot key may use every worker. The best balance of an online scheme, at up to n replicas per hot key."""

from keyspread.online.settings import SenderSettings
from keyspread.schemes.head_and_tail import HeadAndTail
from keyspread.schemes.scheme import Shares


class WChoices(HeadAndTail):
    """Hot keys go to the least loaded of all workers; cold keys to the less loaded of two."""

    name, aliases = "w-choices", ("wc",)

    def choices(self, settings: SenderSettings, head: Shares) -> int:
        """Return the number of workers."""
        return settings.workers
