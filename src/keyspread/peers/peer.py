"""What all peers have in common: the part of `Sender` that a simulation uses."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.errors import InputError
from keyspread.online.settings import default_threshold

# Options of senders that peers accept and ignore, so that one set of options serves a whole comparison.
SENDER_OPTIONS = {"tolerance", "capacity", "counters", "choices", "half_life"}


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
        unknown = options.keys() - self.options.keys() - SENDER_OPTIONS
        if unknown:
            known = ", ".join(["threshold", *self.options])
            raise InputError(f"unknown option {min(unknown)!r}; {self.name} takes {known}")
        self.threshold = default_threshold(workers) if threshold is None else checks.share("threshold", threshold)
        self.given = self.options | {name: value for name, value in options.items() if name in self.options}
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
