"""Identity: a description of what a query computes, so that no other query resumes from its state or folder."""

import json
from typing import Any

from keyspread.errors import InputError
from keyspread.spark.streaming.storage import Folder


def check_identity(folder: Folder, name: str, identity: dict[str, Any], used: bool) -> None:
    """Refuse a folder that is `used` by a query with another identity; otherwise write ours into the file `name`."""
    try:
        before = json.loads(folder.read(name))
    except (OSError, ValueError):  # missing or damaged: nothing to compare with
        before = None
    if before is not None and used and (found := difference(before, identity)):
        raise InputError(f"{folder.address}: {found}")
    if before != identity:
        try:
            folder.write(json.dumps(identity).encode(), name)
        except OSError as problem:
            raise InputError(
                f"{folder.address}: not writable ({problem}); choose a folder that you can write to"
            ) from None


def difference(before: dict[str, Any], now: dict[str, Any]) -> str | None:
    """Describe how two queries differ and what to do; return None if they do not differ in any field of `now`."""
    changed = [
        f"{name} was {before.get(name)!r} and is now {value!r}"
        for name, value in now.items()
        if before.get(name) != value
    ]
    if not changed:
        return None
    return f"this belongs to another query ({', '.join(changed)}): resume that query unchanged, or use a new folder"
