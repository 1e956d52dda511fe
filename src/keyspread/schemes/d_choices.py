"""D-Choices: a hot key may use d workers, where d is the smallest number that balances the head so far (Sec. 4.1)."""

import numpy as np

from keyspread.kernels.choices import find_choices
from keyspread.online.settings import SenderSettings
from keyspread.schemes.head_and_tail import HeadAndTail
from keyspread.schemes.scheme import Shares


class DChoices(HeadAndTail):
    """Hot keys go to the least loaded of d hashed workers; cold keys to the less loaded of two."""

    name, aliases = "d-choices", ("dc",)

    def choices(self, settings: SenderSettings, head: Shares) -> int:
        """Return d; with d = n this is W-Choices."""
        return int(find_choices(np.cumsum(head), settings.workers, settings.tolerance))
