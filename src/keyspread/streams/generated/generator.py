"""Generated streams: message i is the same wherever the stream is drawn, and in whatever parts.

A generated stream is described by a few numbers. It is drawn where it is needed, in a simulation or inside a Spark
task, so its messages never travel over the network.
"""

import dataclasses
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.hashing import hash_keys
from keyspread.streams.encoded import Encoded

_CHUNK = 1 << 17
"""Messages drawn at once: about 1 MB of random numbers and 0.5 MB of ranks, however long the stream is."""


class Law(Protocol):
    """A probability law that draws the keys 1 … keys."""

    @property
    def keys(self) -> int:
        """Number of keys that may occur."""

    def draw(self, start: int, messages: int) -> npt.NDArray[np.int32]:
        """Return the keys of the messages start … start + messages - 1."""


class GeneratedStream(ABC):
    """A stream of integer keys 1, 2, … drawn from a law. Subclasses are dataclasses of the law's parameters."""

    kind: ClassVar[str]
    messages: int
    seed: int
    name: str

    @property
    @abstractmethod
    def title(self) -> str:
        """Short name for reports and plots."""

    @abstractmethod
    def law(self) -> Law:
        """Build the tables to draw from; time and memory grow with the number of keys."""

    def parameters(self) -> dict[str, Any]:
        """Return everything that determines the stream, as plain values."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        values["stream"] = values.pop("name") or self.kind
        # The results of a simulation use the plain names for the keys it counts and for its own seed.
        return {{"keys": "law_keys", "seed": "stream_seed"}.get(name, name): value for name, value in values.items()}

    def encoded(self) -> Encoded:
        """Draw the whole stream into memory, 4 bytes per message."""
        checks.whole_number("messages", self.messages, minimum=0, maximum=checks.LIMITS["messages in memory"])
        law = self.law()
        ids = np.empty(self.messages, np.int32)
        for start in range(0, self.messages, _CHUNK):
            stop = min(start + _CHUNK, self.messages)
            np.subtract(law.draw(start, stop - start), 1, out=ids[start:stop])
        return Encoded(ids, hash_keys(np.arange(1, law.keys + 1))).without_absent_keys()

    def hashes(self) -> npt.NDArray[np.int64]:
        """Draw the whole stream as hashes, 8 bytes per message."""
        return self.encoded().part(0, self.messages)
