"""The state of one sender: everything that it remembers. Schemes read and change it; they have no state themselves."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from keyspread.heavy_hitters import Mark, SpaceSaving
from keyspread.kernels.balance import Balance, new_balance
from keyspread.kernels.capacities import Capacities, new_capacities
from keyspread.kernels.relative_loads import RelativeLoads, new_relative_loads, show_loads
from keyspread.kernels.routing import Candidates, Identity, new_candidates, no_candidates
from keyspread.online.settings import SenderSettings

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
    capacities: Capacities
    """The capacities of the workers."""
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

    # Only with weights or capacities:
    relative: RelativeLoads | None = None
    """The load per capacity of every worker, and the workers in the order of it."""
    shown_at: int = -1
    """The number of messages whose loads `relative` shows; -1: none."""

    @classmethod
    def of(cls, settings: SenderSettings, choices: int) -> "State":
        """Return the state of a sender that has routed nothing."""
        seed = _mixed(settings.seed)
        own = _mixed(seed ^ _mixed(settings.source + 1))
        state = cls(
            settings=settings,
            identity=Identity(np.uint64(seed), own % settings.workers),
            balance=new_balance(settings.workers),
            capacities=new_capacities(settings.workers, settings.capacities),
            choices=choices,
            turn=own % settings.workers,
        )
        if settings.counters:
            state.heavy_hitters = SpaceSaving(settings.counters)
            most_hot = int(1 / settings.threshold) + 1
            state.candidates = new_candidates(settings.workers, settings.counters, most_hot)
        return state

    def relative_loads(self, weights: npt.NDArray[np.int64]) -> RelativeLoads:
        """Return the loads per capacity of now. Messages of these weights come next."""
        if self.relative is None:
            self.relative = new_relative_loads(self.settings.workers)
        if self.shown_at != self.messages:
            unit = max(1.0, float(weights[:_SOME].mean()))
            show_loads(self.relative, self.balance.loads, self.capacities, unit)
            self.shown_at = self.messages
        return self.relative


def _mixed(x: int) -> int:
    """Return the first number of SplitMix64 with this seed; in Python, because it runs once per sender."""
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)
