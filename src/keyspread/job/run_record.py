"""What `keyspread run --streaming` keeps of itself in the query's checkpoint: its settings, and how far it came.

A run that goes on must be of the same stream: Spark's offsets mean nothing in another one. How far it came is told once
a batch, whoever runs that batch and however often.
"""

import json
from collections.abc import Mapping
from typing import Any

from keyspread.errors import InputError
from keyspread.spark.streaming.storage import Folder

_SETTINGS, _PROGRESS = "settings.json", "progress.json"


class RunRecord:
    """Two small files beside what senders remember, each replaced as a whole."""

    def __init__(self, checkpoint: str) -> None:
        self._checkpoint = Folder(checkpoint)

    def goes_on(self, settings: Mapping[str, Any]) -> bool:
        """Say whether there is a run to go on with; refuse one of other settings, and what is no run of ours."""
        if not self._checkpoint.has("offsets"):  # of a run that never came to its first batch
            return False
        found, address = self._read(_SETTINGS), self._checkpoint.address
        if found is None:
            raise InputError(f"--checkpoint {address} is of another query, not of keyspread run: choose another folder")
        wanted = json.loads(json.dumps(settings))
        for name in sorted({*found, *wanted}):
            before, now = found.get(name), wanted.get(name)
            if before != now:
                differs = f"{name} was {_shown(before)}, got {_shown(now)}"
                raise InputError(
                    f"--checkpoint {address} is of another run, {differs}: ask for that, or for another folder"
                )
        return True

    def begin(self, settings: Mapping[str, Any]) -> None:
        """Keep the settings."""
        self._write(_SETTINGS, settings)

    def add(self, batch: int, rows: int) -> int:
        """Tell the rows of a batch; give those of all batches so far. Told again, a batch replaces itself."""
        last = self._read(_PROGRESS) or {"batch": -1, "rows": 0, "before": 0}
        before = last["before"] if batch == last["batch"] else last["rows"]
        self._write(_PROGRESS, {"batch": batch, "rows": before + rows, "before": before})
        return int(before + rows)

    def rows_so_far(self) -> int:
        """Give the rows of all batches that were told."""
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
                f"--checkpoint {where} cannot be written ({problem}): check its rights, or choose another folder"
            ) from None


def _shown(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)
