"""How much of the past a sender forgets, from the change it sees: `half_life="auto"`.

At the end of every epoch the keys' counts in it are compared with what their past shares foretold. Nothing new: nothing
is forgotten, however long the stream. A part D of the epoch's messages that the past does not explain: the past keeps
the weight of about 1/D epochs at most, so that what it says of today is as old as the change allows.

Loads are not forgotten. A worker that had too much while a key was not yet known to be hot gets less afterwards, and
that is what makes a window even.
"""

import math

from keyspread.heavy_hitters import Mark, SpaceSaving
from keyspread.online.settings import Settings

_SURE, _AT_LEAST = 4, 8  # standard deviations, and messages: chance alone hardly ever brings both in an epoch
_WEIGHT = 0.25
_SHORTEST = 512


def epoch(settings: Settings) -> int:
    """Give the messages after which a sender looks back: a key at the threshold is then expected once at least.

    With few workers that would be so often that looking costs more than routing.
    """
    return max(_SHORTEST, math.ceil(1 / settings.threshold))


def halvings(hitters: SpaceSaving, mark: Mark) -> int:
    """Say how often to halve what was counted until `mark`, given what came after it.

    >>> hitters = SpaceSaving(10)
    >>> hitters.offer(7, 1000)
    >>> before = hitters.mark()
    >>> hitters.offer(7, 100)
    >>> halvings(hitters, before)  # as before
    0
    >>> hitters.offer(8, 100)
    >>> halvings(hitters, before)  # half of it is new: 1000 become 31, a quarter of an epoch's weight
    5
    """
    now = hitters.total - mark.total
    if mark.total == 0 or now == 0:
        return 0
    change = hitters.unexpected_growth(mark, _SURE, _AT_LEAST) / now
    if change == 0:
        return 0
    # 1000 messages, at most 50: 1000 500 250 125 62 31, five halvings
    most = max(hitters.unit, _WEIGHT * now * (1 - change) / change)
    return max(0, math.ceil(math.log2(mark.total / most)))
