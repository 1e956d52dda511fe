"""What senders leave to the next batch of a stream: small files under the query's checkpoint, one a batch and source.

A batch reads the files of the batch before it, whoever runs it and however often, so an attempt that is run again
starts from the same point. What is missing or damaged costs a warning and some relearning, never the query.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark import TaskContext

from keyspread.errors import KeyspreadError
from keyspread.spark.streaming.identity import check_identity
from keyspread.spark.streaming.storage import Folder

_KEPT = 10
"""Batches whose files are kept: more than Spark ever runs again."""

_BATCH_ID = "streaming.sql.batchId"  # the local property in which Spark tells a task the number of its micro-batch
_Left = TypeVar("_Left")


def this_task() -> tuple[int, int | None]:
    """Give the source and the batch of the task that runs here; without a stream there is no batch."""
    task = TaskContext.get()
    assert task is not None
    number = task.getLocalProperty(_BATCH_ID)
    return task.partitionId(), None if number is None else int(number)


@dataclass(frozen=True)
class Remembered:
    """The files of one query, in a folder of ours beside what Spark keeps in the checkpoint."""

    folder: Folder

    @classmethod
    def under(cls, checkpoint: str) -> "Remembered":
        """Give those of a query with this checkpoint."""
        return cls(Folder(Folder(checkpoint).at("keyspread")))

    @staticmethod
    def check(checkpoint: str, identity: dict[str, Any]) -> None:
        """Refuse a checkpoint of a query that computes something else."""
        folder = Folder(checkpoint)
        check_identity(folder, "keyspread/query.json", identity, used=bool(folder.names("offsets")))

    def write(self, batch: int, source: int, data: bytes) -> None:
        """Leave what a source remembers of a batch; written again, it is replaced by the same."""
        own = f"{batch:012d}"
        try:
            self.folder.write(data, own, f"{source:06d}")
        except OSError as problem:
            told = f"{self.folder.at(own)}: cannot be written ({problem}): the next batch starts afresh"
            warnings.warn(told, stacklevel=2)
        if source == 0:
            self._clean(batch)

    def before(self, batch: int, parse: Callable[[bytes], _Left]) -> list[_Left]:
        """Give what the sources left in the last batch before this one that left anything, in their order."""
        earlier = [name for name in self.folder.names() if name.isdigit() and int(name) < batch]
        last, found = max(earlier, default=""), []
        for name in self.folder.names(last) if last else ():
            if name.isdigit():
                try:
                    found.append(parse(self.folder.read(last, name)))
                except (OSError, KeyspreadError) as problem:
                    told = f"{self.folder.at(last, name)}: cannot be read ({problem}): relearning what it knew"
                    warnings.warn(told, stacklevel=2)
        return found

    def _clean(self, batch: int) -> None:
        """Remove the files of batches that nobody will run again."""
        for name in self.folder.names():
            if name.isdigit() and int(name) < batch - _KEPT:
                try:
                    self.folder.delete(name)
                except OSError:
                    continue  # another attempt was quicker
