"""Old names of options: they still work, with a DeprecationWarning."""

import sys
import warnings
from collections.abc import Mapping
from typing import Any

from keyspread.errors import InputError

RENAMED = {"capacity": "counters"}
"""Old name of an option -> its name now. The capacity of a sender was its number of counters."""


def current_names(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options under their current names, and warn about each old name that is used.

    >>> current_names({"threshold": 0.1, "capacity": None})
    {'threshold': 0.1}
    """
    renamed = dict(options)
    for old, new in RENAMED.items():
        value = renamed.pop(old, None)
        if value is None:
            continue
        if renamed.get(new) is not None:
            raise InputError(f"{old} is the old name of {new}, got both: leave out {old}")
        warnings.warn(f"{old} is now called {new}", DeprecationWarning, stacklevel=_level_of_caller())
        renamed[new] = value
    return renamed


def _level_of_caller() -> int:
    """Return the stack level of the first frame outside keyspread, seen from the function that warns."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "keyspread":
        level, frame = level + 1, frame.f_back
    return level
