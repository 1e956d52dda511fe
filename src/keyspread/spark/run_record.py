"""What `keyspread run --streaming` keeps of itself in the query's checkpoint: its settings, and how far it came.

A run that goes on must be of the same stream: Spark's offsets mean nothing in another one. How far it came is told once
a batch, whoever runs that batch and however often.
"""

import json
import posixpath
import uuid
from collections.abc import Mapping
from typing import Any

from pyarrow import fs

from keyspread.errors import InputError
from keyspread.spark.remembered import Remembered

_SETTINGS, _PROGRESS = "settings.json", "progress.json"


class RunRecord:
    """Two small files beside what look-ahead remembers, each replaced as a whole."""

    def __init__(self, checkpoint: str) -> None:
        self._checkpoint = checkpoint
        try:
            self._system, self._folder = Remembered.under(checkpoint).open()
        except (OSError, ValueError) as problem:
            raise InputError(f"--checkpoint {checkpoint}: no folder that can be used ({problem})") from None

    def goes_on(self, settings: Mapping[str, Any]) -> bool:
        """Say whether there is a run to go on with; refuse one of other settings, and what is no run of ours."""
        found = self._read(_SETTINGS)
        if found is None:
            if self._kind(posixpath.join(posixpath.dirname(self._folder), "offsets")) != fs.FileType.NotFound:
                raise InputError(
                    f"--checkpoint {self._checkpoint} is of another query, not of keyspread run: choose another folder"
                )
            return False
        wanted = json.loads(json.dumps(settings))
        for name in sorted({*found, *wanted}):
            before, now = found.get(name), wanted.get(name)
            if before != now:
                differs = f"{name} was {_shown(before)}, got {_shown(now)}"
                raise InputError(
                    f"--checkpoint {self._checkpoint} is of another run, {differs}: ask for that, or for another folder"
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

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            with self._system.open_input_stream(posixpath.join(self._folder, name)) as file:
                found: dict[str, Any] = json.loads(file.read())
                return found
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as problem:
            raise InputError(
                f"--checkpoint {self._checkpoint}: {name} cannot be read ({problem}): choose another folder"
            ) from None

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        hidden = posixpath.join(self._folder, f".{uuid.uuid4().hex}")
        try:
            self._system.create_dir(self._folder, recursive=True)
            with self._system.open_output_stream(hidden) as file:
                file.write(json.dumps(content).encode())
            self._system.move(hidden, posixpath.join(self._folder, name))
        except OSError as problem:
            raise InputError(
                f"--checkpoint {self._checkpoint} cannot be written ({problem}): check its rights, or choose another"
            ) from None

    def _kind(self, path: str) -> Any:
        return self._system.get_file_info(path).type


def _shown(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)
