"""Every micro-batch as a line of JSON in a file, for whatever reads logs."""

import json
import os

from keyspread.spark.streaming.listener import BatchSeen


class JsonLines:
    """Appends a line for each batch: pass it to a `StreamWatch` as one of `then`.

    The file is opened for every line, so that it may be moved away while the query runs.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path

    def __call__(self, seen: BatchSeen) -> None:
        """Write one line."""
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(seen.to_dict(), ensure_ascii=False) + "\n")
