"""The record of `keyspread run --streaming` in the query's checkpoint: its settings and its progress.

A run that resumes must read the same stream, because Spark's offsets mean nothing in another one. Progress counts each
batch once, however often it is retried.
"""

import json
from collections.abc import Mapping
from typing import Any

from keyspread.errors import InputError
from keyspread.spark.streaming.storage import Folder

_SETTINGS, _PROGRESS = "settings.json", "progress.json"


class RunRecord:
    """Two small files in the checkpoint, each replaced as a whole."""

    def __init__(self, checkpoint: str) -> None:
        self._checkpoint = Folder(checkpoint)

    def resumes(self, settings: Mapping[str, Any]) -> bool:
        """Return whether there is a run to resume; refuse a run with other settings, and a query that is not ours."""
        try:
            begun = self._checkpoint.has("offsets")
        except OSError as problem:
            raise InputError(
                f"--checkpoint {self._checkpoint.address} cannot be opened ({problem}): use a folder on this machine, "
                "or an address that pyarrow knows (s3a://, gs://, hdfs://)"
            ) from None
        if not begun:  # the run never started its first batch
            return False
        found, address = self._read(_SETTINGS), self._checkpoint.address
        if found is None:
            raise InputError(f"--checkpoint {address} belongs to a query of another program: choose another folder")
        wanted = json.loads(json.dumps(settings))
        for name in sorted({*found, *wanted}):
            before, now = found.get(name), wanted.get(name)
            if before != now:
                differs = f"{name} was {_shown(before)}, got {_shown(now)}"
                raise InputError(
                    f"--checkpoint {address} belongs to another run ({differs}): use that, or another folder"
                )
        return True

    def begin(self, settings: Mapping[str, Any]) -> None:
        """Store the settings."""
        self._write(_SETTINGS, settings)

    def add(self, batch: int, rows: int) -> int:
        """Add the rows of a batch and return those of all batches so far; a batch that is retried replaces itself."""
        last = self._read(_PROGRESS) or {"batch": -1, "rows": 0, "before": 0}
        before = last["before"] if batch == last["batch"] else last["rows"]
        self._write(_PROGRESS, {"batch": batch, "rows": before + rows, "before": before})
        return int(before + rows)

    def rows_so_far(self) -> int:
        """Return the rows of all batches so far."""
        return int((self._read(_PROGRESS) or {"rows": 0})["rows"])

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self._checkpoint.read("keyspread", name))
            return found
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as problem:
            where = self._checkpoint.address
            raise InputError(
                f"--checkpoint {where}: {name} cannot be read ({problem}): choose another folder"
            ) from None

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        try:
            self._checkpoint.write(json.dumps(content).encode(), "keyspread", name)
        except (OSError, ValueError) as problem:
            where = self._checkpoint.address
            raise InputError(
                f"--checkpoint {where} cannot be written ({problem}): check its permissions, or choose another folder"
            ) from None


def _shown(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)
