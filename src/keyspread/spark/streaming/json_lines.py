"""`JsonLines`: every micro-batch as a line of JSON in a file, for tools that read logs."""

import json
import os

from keyspread.spark.streaming.stream_watch import BatchSeen


class JsonLines:
    """Appends one line of JSON per batch: pass it to a `StreamWatch` in `then`.

    The file is opened for every line, so it may be moved away while the query runs.

    >>> import tempfile
    >>> import numpy as np
    >>> path = tempfile.mkstemp(suffix=".jsonl")[1]
    >>> write = JsonLines(path)
    >>> write(BatchSeen(np.array([5, 5]), query="q", batch=0, time="2026-01-01T00:00:00Z", seconds=0.2, head=1))
    >>> json.loads(open(path).read())["loads"]
    [5, 5]
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path

    def __call__(self, seen: BatchSeen) -> None:
        """Append one line."""
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(seen.to_dict(), ensure_ascii=False) + "\n")
