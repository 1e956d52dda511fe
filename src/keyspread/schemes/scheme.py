"""What every scheme is: a rule without state. The state it works on belongs to one sender."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from keyspread.heavy_hitters import SpaceSaving
from keyspread.kernels import weighted_routing
from keyspread.kernels.balance import Balance
from keyspread.kernels.capacities import Fleet
from keyspread.kernels.routing import Candidates, Identity, no_candidates
from keyspread.online.settings import Settings

Keys = npt.NDArray[np.uint64]
Workers = npt.NDArray[np.int32]
Weights = npt.NDArray[np.int64]
Shares = npt.NDArray[np.float64]


@dataclass
class State:
    """What one sender knows: only what it sent itself."""

    settings: Settings
    identity: Identity
    balance: Balance
    fleet: Fleet
    choices: int
    messages: int = 0
    unit: float = 1.0  # mean weight of a message, as of the last review
    turn: int = 0  # whose turn it is in a round robin
    # Only where the scheme tells hot keys from others:
    heavy_hitters: SpaceSaving | None = None
    candidates: Candidates = field(default_factory=no_candidates)
    margin: float = 0.0  # how far a count must lie above the threshold to be hot
    levels_are_current: bool = True  # whether `balance.levels` show the loads


class Scheme(ABC):
    """One way to choose a worker. Each file of this folder holds one."""

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    recommended: ClassVar[dict[str, Any]] = {}  # options to set unless there is a reason not to
    tracks_head: ClassVar[bool] = False
    needs_choices: ClassVar[bool] = False
    sizes_each_key: ClassVar[bool] = False  # hot keys differ in how many workers they may use
    # The rule for messages of different weights, or workers of different capacity:
    cold: ClassVar[int] = weighted_routing.LESS_OF_TWO
    hot: ClassVar[int] = weighted_routing.CHOICES

    @abstractmethod
    def choices(self, settings: Settings, head: Shares) -> int:
        """Say how many workers a hot key (or, without a head, any key) may use, for a head with these shares."""

    def choices_of_each(self, settings: Settings, head: Shares) -> Workers:
        """Say how many workers each key of a head, hottest first, may use."""
        return np.full(head.size, self.choices(settings, head), np.int32)

    def review(self, state: State) -> None:  # noqa: B027 - most schemes have nothing to do
        """Size the workers of every hot key anew, where keys differ."""

    def faded(self, state: State) -> None:  # noqa: B027
        """Take note that counters may have moved."""

    @abstractmethod
    def route(self, state: State, keys: Keys, out: Workers) -> None:
        """Write the worker of every message to `out` and add it to the loads."""

    def route_uneven(self, state: State, keys: Keys, weights: Weights, out: Workers) -> None:
        """Do the same for messages of these weights, or workers of different capacity."""
        out[:] = -1
        self.route_marked_uneven(state, keys, weights, out)

    def route_marked_uneven(self, state: State, keys: Keys, weights: Weights, out: Workers) -> None:
        """Route messages whose entry in `out` says whether they are hot."""
        everyone = self.hot == weighted_routing.CHOICES and state.choices >= state.settings.workers
        state.turn = int(
            weighted_routing.route_uneven(
                keys,
                weights,
                out,
                state.messages,
                state.identity,
                state.balance.loads,
                state.fleet,
                state.candidates,
                self.cold,
                weighted_routing.ANYONE if everyone else self.hot,
                state.choices,
                state.unit,
                state.turn,
            )
        )
        state.levels_are_current = False
