"""Gates: moments of a query at which it waits until its fault has been caused.

The gates of a schedule are in its folder: `gates.json` has the batch and the moment of every fault, `gate-N` appears
when the query stands there, with the process that waits, and `gate-N-open` when it may continue. Only the first process
to arrive waits: the others, and every later attempt, pass.
"""

import json
import os
import time
from pathlib import Path

BEGUN = "begun"  # the sink got the batch and has not asked for its rows
READING = "reading"  # a task behind the exchange has begun to read
WRITTEN = "written"  # the sink has written the batch, and Spark has not yet committed it
MOMENTS = (BEGUN, READING, WRITTEN)
PATIENCE = 600  # seconds; the campaign opens every gate long before


def write_gates(folder: Path, gates: list[tuple[int, str]]) -> None:
    """Write the batch and moment of every fault."""
    (folder / "gates.json").write_text(json.dumps(gates))


def wait_at(folder: str | Path, batch: int, moment: str) -> None:
    """Wait if this is the moment of a fault and nobody has waited for it yet."""
    folder = Path(folder)
    for number, gate in enumerate(json.loads((folder / "gates.json").read_text())):
        if gate != [batch, moment]:
            continue
        try:
            descriptor = os.open(folder / f"gate-{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            continue
        os.write(descriptor, str(os.getpid()).encode())
        os.close(descriptor)
        until = time.monotonic() + PATIENCE
        while not (folder / f"gate-{number}-open").exists() and time.monotonic() < until:
            time.sleep(0.02)


def waiting_process(folder: Path, number: int) -> int | None:
    """Return the process that stands or stood at a gate, or None if nobody has arrived."""
    try:
        return int((folder / f"gate-{number}").read_text() or 0)
    except FileNotFoundError:
        return None


def open_gate(folder: Path, number: int) -> None:
    """Let the query continue."""
    (folder / f"gate-{number}-open").touch()
