"""Read JSON of any depth: the plan of a query that was built in a loop is nested deeper than other readers go."""

import json
import re
from typing import Any

_BLANK = re.compile(r"[ \t\r\n]*")
_FLAT = json.JSONDecoder(strict=False)
"""Reads what has nothing within: texts, numbers, true, false, null."""


def loads(text: str) -> Any:
    """Return the value of a JSON text. Raise a ValueError if it is none."""
    top: list[Any] = []
    waiting: list[Any] = [top]  # the containers that are open
    keys: list[str] = [""]  # for each, the name of the value that follows, if it is an object
    place = _skip(text, 0)
    while True:
        place = _take(text, place, waiting, keys)
        # Behind a value: close containers, or go on to the next one.
        while len(waiting) > 1:
            place = _skip(text, place)
            closing = "}" if isinstance(waiting[-1], dict) else "]"
            if text[place : place + 1] == closing:
                waiting.pop()
                keys.pop()
                place += 1
                continue
            fresh = not waiting[-1]
            if not fresh and text[place : place + 1] != ",":
                raise ValueError(f"no comma at {place}")
            place = _skip(text, place + (not fresh))
            if isinstance(waiting[-1], dict):
                keys[-1], place = _name(text, place)
            break
        else:
            if _skip(text, place) != len(text):
                raise ValueError(f"something follows at {place}")
            return top[0]


def _take(text: str, place: int, waiting: list[Any], keys: list[str]) -> int:
    """Take the value at a place into the innermost container; an object or array that opens becomes the innermost."""
    sign = text[place : place + 1]
    value: Any
    if sign in ("{", "["):
        value, end = ({} if sign == "{" else []), place + 1
    else:
        value, end = _FLAT.raw_decode(text, place)
    container = waiting[-1]
    if isinstance(container, dict):
        container[keys[-1]] = value
    else:
        container.append(value)
    if sign in ("{", "["):
        waiting.append(value)
        keys.append("")
    return end


def _name(text: str, place: int) -> tuple[str, int]:
    if text[place : place + 1] != '"':
        raise ValueError(f"no name at {place}")
    name, place = _FLAT.raw_decode(text, place)
    place = _skip(text, place)
    if text[place : place + 1] != ":":
        raise ValueError(f"no colon at {place}")
    return name, _skip(text, place + 1)


def _skip(text: str, place: int) -> int:
    match = _BLANK.match(text, place)
    return match.end() if match else place
