"""What every peer is: a sender of its own, with the part of `Sender` that a simulation uses."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from keyspread.threshold import checked_threshold


class Peer(ABC):
    """Routes hashes to workers 0 … n-1, the same for the same seed, source and messages."""

    name: ClassVar[str]
    options: ClassVar[dict[str, Any]] = {}
    """Its own options with their defaults."""
    is_told_hot_keys: ClassVar[bool] = False

    def __init__(
        self, workers: int, *, source: int = 0, seed: int = 0, threshold: float | None = None, **options: Any
    ) -> None:
        assert options.keys() <= self.options.keys()  # the registry has refused any other
        self.threshold = checked_threshold(threshold, workers)
        self.given = self.options | options
        self.loads = np.zeros(workers, np.int64)
        self.random = np.random.default_rng([seed, source])
        self.keys = np.uint64(np.random.default_rng(seed).integers(0, 2**63))  # the same candidates at every source

    @property
    @abstractmethod
    def choices(self) -> int:
        """How many workers a hot key may use."""

    @abstractmethod
    def route(self, hashes: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Give the worker of every message."""
