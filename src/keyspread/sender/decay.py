"""Decay by change: how much of the past a sender forgets with `half_life="auto"`.

At the end of every epoch, the counts of the keys in it are compared with the counts that their past shares predict. If
the prediction holds, nothing is forgotten, however long the stream is. If a fraction D of the epoch's messages is not
predicted, the past keeps the weight of about 1/D epochs at most.

Loads are not forgotten. A worker that got too many messages before a key was known to be hot gets fewer afterwards,
which makes a window even.
"""

import math
from typing import TYPE_CHECKING

from keyspread.heavy_hitters import Mark, SpaceSaving
from keyspread.kernels.compilation import Indices, Keys
from keyspread.kernels.summary import Epochs, observe_epochs
from keyspread.sender.settings import SenderSettings

if TYPE_CHECKING:
    from keyspread.sender.schemes import Scheme
    from keyspread.sender.state import State

_SURE, _AT_LEAST = 4, 8  # standard deviations, and messages: chance alone hardly ever exceeds both in an epoch
_WEIGHT = 0.25  # of an epoch: what the past keeps if half of an epoch is new
_SHORTEST = 512  # messages per epoch at least: with few workers, comparing more often costs more than routing


def epoch(settings: SenderSettings) -> int:
    """Return the messages per epoch: enough for a key at the threshold to be expected once."""
    return max(_SHORTEST, math.ceil(1 / settings.threshold))


def fade_every(scheme: "Scheme", settings: SenderSettings) -> int:
    """Return the number of messages between two fadings; 0 if nothing fades."""
    if settings.half_life == "auto":
        return epoch(settings) if scheme.tracks_head else 0
    return int(settings.half_life or 0)


def halvings(hitters: SpaceSaving, mark: Mark) -> int:
    """Return how often to halve the counts from before `mark`, given those after it.

    >>> hitters = SpaceSaving(10)
    >>> hitters.offer(7, 1000)
    >>> before = hitters.mark()
    >>> hitters.offer(7, 100)
    >>> halvings(hitters, before)  # nothing has changed
    0
    >>> hitters.offer(8, 100)
    >>> halvings(hitters, before)  # half of the epoch is new: 1000 become 31, a quarter of an epoch's weight
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


def observe(state: "State", keys: Keys, hot: Indices) -> int:
    """Count messages until an epoch ends that calls for fading; return how many. `hot` is as in `summary.observe`.

    Most epochs end without it. They pass within the kernel, because a return to Python takes longer than an epoch.
    """
    assert state.heavy_hitters is not None
    assert state.mark is not None
    epochs = Epochs(
        state.fade_at - state.messages, epoch(state.settings), state.mark.total, float(_SURE), float(_AT_LEAST)
    )
    seen, due, total = observe_epochs(
        state.heavy_hitters.arrays, keys, hot, state.settings.threshold, state.margin, epochs, state.mark.counts
    )
    state.fade_at, state.mark = state.messages + due, Mark(state.mark.counts, total)
    return int(seen)
