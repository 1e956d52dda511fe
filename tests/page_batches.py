"""Batches for tests of the page, without Spark."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

BEGIN = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


@dataclass
class MadeBatch:
    """A batch as a StreamWatch reports it."""

    loads: np.ndarray
    batch: int = 0
    hottest: tuple = (("anna", 5),)
    seconds: float = 0.5
    head: int | None = 1
    malformed: int = 0
    by_hash: np.ndarray | None = None
    workers_of: tuple = ((0, 1),)
    at: float | None = None
    time: str = field(init=False)

    def __post_init__(self):
        moment = BEGIN + self.batch if self.at is None else self.at
        self.time = datetime.fromtimestamp(moment, UTC).isoformat().replace("+00:00", "Z")


def made(batch, loads=(6, 4), by_hash=(9, 1), **more):
    return MadeBatch(np.array(loads), batch, by_hash=None if by_hash is None else np.array(by_hash), **more)
