"""What every peer is: a sender of its own, with the part of `Sender` that a simulation uses."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.errors import InputError
from keyspread.online.settings import default_threshold

SENDING = {"tolerance", "capacity", "choices", "half_life"}  # what senders take is accepted, without use here


class Peer(ABC):
    """Routes hashes to workers 0 … n-1, the same for the same seed, source and messages."""

    name: ClassVar[str]
    options: ClassVar[dict[str, Any]] = {}
    """Its own options with their defaults."""
    is_told_hot_keys: ClassVar[bool] = False

    def __init__(
        self, workers: int, *, source: int = 0, seed: int = 0, threshold: float | None = None, **options: Any
    ) -> None:
        unknown = options.keys() - self.options.keys() - SENDING
        if unknown:
            known = ", ".join(["threshold", *self.options])
            raise InputError(f"unknown option {min(unknown)!r}; {self.name} takes {known}")
        self.threshold = default_threshold(workers) if threshold is None else checks.share("threshold", threshold)
        self.given = self.options | {name: value for name, value in options.items() if name in self.options}
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
