"""When a key is treated as hot: a margin above the threshold, so that the first messages do not scatter cold keys."""

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from keyspread.heavy_hitters import Mark, SpaceSaving
from keyspread.kernels.balance import Balance, new_balance
from keyspread.kernels.routing import Candidates, Identity, new_candidates, no_candidates
from keyspread.kernels.weighted import WeightedBalance, new_weighted_balance, show_loads
from keyspread.sender.settings import SenderSettings


def margin(expected: float) -> float:
    """Return how far a count must be above `expected`, the count of a key exactly at the threshold, to be hot.

    Among the first messages every key is frequent, and later a key just below the threshold exceeds it by chance now
    and then. Each time, its messages would go to workers that never had the key. So a count must be above the
    threshold by its standard deviation (the root, for a Poisson count) plus 2. A hot key gets there soon: its count
    grows with the stream, and the margin only with the root.

        expected   0   1    4   100   10000
        margin     2   3    4    12     102

    `./dev bench warm_up` measures the effect: without the margin W-Choices has up to 15 % more replicas.
    """
    return 2 + math.sqrt(expected)


# The state of one sender: everything that it remembers. Schemes read and change it; they have no state themselves.


_MASK = 0xFFFFFFFFFFFFFFFF
_SOME = 1000  # messages whose mean weight says how weights are


def _no_shares() -> npt.NDArray[np.float64]:
    return np.empty(0, np.float64)


@dataclass
class State:
    """What one sender knows. All of it comes from the messages that this sender has routed."""

    settings: SenderSettings
    identity: Identity
    balance: Balance
    """The load of every worker, and the workers in the order of their loads."""
    choices: int
    """How many workers a hot key may use now; without a head, any key."""
    messages: int = 0
    """Messages routed so far."""
    unit: float = 1.0
    """Mean weight of a message, as of the last review."""
    turn: int = 0
    """The worker whose turn it is in a round robin."""
    review_at: int = 0
    """The number of messages at which the head is looked at again."""
    fade_at: int = 0
    """The number of messages at which counts fade; 0: never."""

    # Only of schemes that track a head:
    heavy_hitters: SpaceSaving | None = None
    candidates: Candidates = field(default_factory=no_candidates)
    """The workers of each hot key, as far as they are known."""
    margin: float = 0.0
    """How far above the threshold a count must be before its key is treated as hot."""
    head_shares: npt.NDArray[np.float64] = field(default_factory=_no_shares)
    """The shares of the hot keys from which `choices` was computed."""
    mark: Mark | None = None
    """The counts at the start of the epoch, with half_life="auto"."""
    levels_are_current: bool = True
    """Whether `balance.levels` shows the loads."""

    # Only with weights:
    weighted_balance: WeightedBalance | None = None
    """The loads of `balance`, and the workers in the order of them, for loads that grow by weights."""
    shown_at: int = -1
    """The number of messages whose loads `weighted_balance` shows; -1: none."""

    @classmethod
    def of(cls, settings: SenderSettings, choices: int) -> "State":
        """Return the state of a sender that has routed nothing."""
        seed = _mixed(settings.seed)
        own = _mixed(seed ^ _mixed(settings.source + 1))
        state = cls(
            settings=settings,
            identity=Identity(np.uint64(seed), own % settings.workers),
            balance=new_balance(settings.workers),
            choices=choices,
            turn=own % settings.workers,
        )
        if settings.counters:
            state.heavy_hitters = SpaceSaving(settings.counters)
            most_hot = int(1 / settings.threshold) + 1
            state.candidates = new_candidates(settings.workers, settings.counters, most_hot)
        return state

    def current_weighted_balance(self, weights: npt.NDArray[np.int64]) -> WeightedBalance:
        """Return the loads of now, for messages of these weights, which come next."""
        if self.weighted_balance is None:
            self.weighted_balance = new_weighted_balance(self.balance.loads)
        if self.shown_at != self.messages:
            show_loads(self.weighted_balance, max(1.0, float(weights[:_SOME].mean())))
            self.shown_at = self.messages
        return self.weighted_balance


def _mixed(x: int) -> int:
    """Return the first number of SplitMix64 with this seed; in Python, because it runs once per sender."""
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)
