"""What all peers have in common: the part of `Sender` that a simulation uses."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from keyspread.threshold import checked_threshold


class Peer(ABC):
    """Routes hashes to workers 0 … n-1: the same for the same seed, source and messages."""

    name: ClassVar[str]
    options: ClassVar[dict[str, Any]] = {}
    """The options of this peer, with their defaults."""
    takes_hot_keys: ClassVar[bool] = False
    """Whether the user names the hot keys, in the option `hot`."""

    def __init__(
        self, workers: int, *, source: int = 0, seed: int = 0, threshold: float | None = None, **options: Any
    ) -> None:
        assert options.keys() <= self.options.keys()  # the registry has refused all others
        self.threshold = checked_threshold(threshold, workers)
        self.given = self.options | options
        self.loads = np.zeros(workers, np.int64)
        self.random = np.random.default_rng([seed, source])
        self.salt = np.uint64(np.random.default_rng(seed).integers(0, 2**63))  # the same candidates at every source

    @property
    @abstractmethod
    def choices(self) -> int:
        """The number of workers that a hot key may use."""

    @abstractmethod
    def route(self, hashes: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Return the worker of every message."""
