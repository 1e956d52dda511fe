"""Identity: a description of what a query computes, so that no other query resumes from its state or folder."""

from typing import Any


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
