"""What every scheme is: a rule without state. The state it works on belongs to one sender."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from keyspread.heavy_hitters import SpaceSaving
from keyspread.kernels.balance import Balance
from keyspread.kernels.routing import Candidates, Identity
from keyspread.settings import Settings

Keys = npt.NDArray[np.uint64]
Workers = npt.NDArray[np.int32]
Shares = npt.NDArray[np.float64]


@dataclass
class State:
    """What one sender knows: only what it sent itself."""

    settings: Settings
    identity: Identity
    balance: Balance
    choices: int
    messages: int = 0
    turn: int = 0  # whose turn it is in a round robin
    # Only where the scheme tells hot keys from others:
    heavy_hitters: SpaceSaving | None = None
    candidates: Candidates | None = None
    margin: float = 0.0  # how far a count must lie above the threshold to be hot
    levels_are_current: bool = True  # whether `balance.levels` show the loads


class Scheme(ABC):
    """One way to choose a worker. Each file of this folder holds one."""

    name: ClassVar[str]
    alias: ClassVar[str]
    tracks_head: ClassVar[bool] = False
    needs_choices: ClassVar[bool] = False
    sizes_each_key: ClassVar[bool] = False  # hot keys differ in how many workers they may use

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
