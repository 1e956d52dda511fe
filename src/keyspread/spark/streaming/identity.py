"""Whose a checkpoint or a table is: a file that says what a query computes, so that no other one goes on from it."""

import json
from typing import Any

from keyspread.errors import InputError
from keyspread.spark.streaming.storage import Folder


def check_identity(folder: Folder, name: str, identity: dict[str, Any], used: bool) -> None:
    """Refuse a folder that is `used` by a query of another identity; else leave our own in it."""
    try:
        was = json.loads(folder.read(name))
    except (OSError, ValueError):  # not there, or damaged: nothing to compare with
        was = None
    if was is not None and used and was != identity:
        raise InputError(f"{folder.address}: {different(was, identity)}")
    if was != identity:
        try:
            folder.write(json.dumps(identity).encode(), name)
        except OSError as problem:
            raise InputError(f"{folder.address}: cannot be written ({problem}); name a folder that can be") from None


def different(was: dict[str, Any], now: dict[str, Any]) -> str:
    """Say in what two queries differ, and what to do."""
    names = [*was, *(name for name in now if name not in was)]
    told = ", ".join(
        f"{name} was {was.get(name)!r} and is now {now.get(name)!r}" for name in names if was.get(name) != now.get(name)
    )
    return f"what is there is of another query ({told}): go on as it was, or start in a new folder"
