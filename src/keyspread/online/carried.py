"""Senders of a stream in micro-batches: what those of the last batch knew, carried to the next one.

A stage ends when its slowest worker does, so loads begin at zero: what counts is the load of the batch. The heavy
hitters go on, and with them d: those of all senders are merged and shared out evenly, so there may be more or fewer
senders, or workers, than before; halved, so that the new batch weighs as much as all that was before it.
"""

from collections.abc import Iterable
from functools import reduce
from typing import Any

from keyspread.heavy_hitters import SpaceSaving
from keyspread.online.sender import Sender


def carry(left: Iterable[Sender], scheme: str, workers: int, **options: Any) -> Sender:
    """Make a sender for the next batch from those that dealt the last one.

    >>> import numpy as np
    >>> last = [Sender("d-choices", workers=10, source=source) for source in range(2)]
    >>> for sender in last:
    ...     _ = sender.route(np.repeat([7, 8, 9], [800, 100, 100]))
    >>> next_ = carry(last, "d-choices", workers=10, source=0)
    >>> next_.heavy_hitters.top(1), int(next_.loads.sum())
    ([(7, 400, 400)], 0)
    """
    sender = Sender(scheme, workers, **options)
    known = [one.heavy_hitters for one in left if one.heavy_hitters is not None]
    if sender.heavy_hitters is not None and known:
        reduce(SpaceSaving.merge, known).share_out(2 * len(known), into=sender.heavy_hitters)
    return sender
