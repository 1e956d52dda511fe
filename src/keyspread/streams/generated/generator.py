"""Streams made by a law: message i of one is the same wherever and in whatever parts it is drawn.

A made stream is a few numbers. It is drawn where it is needed, in a simulation or inside Spark's tasks, and nothing of
its length travels.
"""

import dataclasses
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from keyspread.hashing import hash_keys
from keyspread.streams.encoded import Encoded

_CHUNK = 1 << 17
"""Messages drawn at once: about 1 MB each of uniforms and ranks, whatever the length of the stream."""


class Law(Protocol):
    """What draws the keys 1 … keys."""

    @property
    def keys(self) -> int:
        """How many keys may occur."""

    def draw(self, start: int, messages: int) -> npt.NDArray[np.int32]:
        """Give the keys of the messages start … start + messages - 1."""


class Made(ABC):
    """A stream of integer keys 1, 2, … drawn by a law; its subclasses are dataclasses of the law's numbers."""

    kind: ClassVar[str]
    messages: int
    seed: int
    name: str

    @property
    @abstractmethod
    def title(self) -> str:
        """A few words for people."""

    @abstractmethod
    def law(self) -> Law:
        """Make the tables that draw; they cost time and memory in the number of keys."""

    def parameters(self) -> dict[str, Any]:
        """Give everything that decides the stream, as plain values."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        values["stream"] = values.pop("name") or self.kind
        # Of the law: what a simulation counts and seeds has the plain names.
        return {{"keys": "law_keys", "seed": "stream_seed"}.get(name, name): value for name, value in values.items()}

    def encoded(self) -> Encoded:
        """Draw all of it into memory, 4 bytes a message."""
        law = self.law()
        ids = np.empty(self.messages, np.int32)
        for start in range(0, self.messages, _CHUNK):
            stop = min(start + _CHUNK, self.messages)
            np.subtract(law.draw(start, stop - start), 1, out=ids[start:stop])
        return Encoded(ids, hash_keys(np.arange(1, law.keys + 1))).without_absent_keys()

    def hashes(self) -> npt.NDArray[np.int64]:
        """Draw all of it as hashes, 8 bytes a message."""
        return self.encoded().part(0, self.messages)
