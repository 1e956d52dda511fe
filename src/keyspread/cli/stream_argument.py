"""The stream that a command was given by name or path, in memory, and what else is known of it."""

import glob
import os
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from keyspread.errors import InputError

if TYPE_CHECKING:
    import numpy.typing as npt

    from keyspread.streams import GeneratedStream
    from keyspread.streams.encoded import Encoded

_MOST_MESSAGES = 50_000_000
_SLOW = 2_000_000
"""Messages from which on drawing takes long enough to say so."""
_UNIX = (631_152_000, 4_102_444_800)
"""1990 to 2100 in unix seconds: times within are taken for such."""
_OF_FILES = ("format", "key", "time", "limit")


@dataclass(frozen=True)
class GivenStream:
    """A stream in memory, and what is known of it besides its messages."""

    title: str
    encoded: "Encoded"
    parameters: dict[str, Any]
    made: "GeneratedStream | None" = None
    texts: Any = None
    span: "tuple[float, float] | None" = None
    malformed: Any = None

    def names(self, hashes: list[int]) -> dict[int, Any]:
        """Give each key as its user knows it: a text of the file, the number in a made stream."""
        if self.made is None:
            return {key: self.texts[key] for key in hashes}
        return _numbers(self.made, set(hashes))

    def label(self, key: Any) -> str:
        """Give a key's name as it is shown."""
        return f"key {key:,}" if self.made is not None else clean(key) or repr(key)


def find_stream(what: str, given: dict[str, Any], *, strict: bool = False, most: int | None = None) -> GivenStream:
    """Draw the made stream of this name, or read this path; `given` are the options, those of its kind only.

    A stream of more than `most` messages is refused, made ones before they are drawn.
    """
    from keyspread.streams.generated.catalog import DEFAULTS

    refuse_foreign(what, given)
    most = _MOST_MESSAGES if most is None else most
    return _draw(what.lower(), given, most) if what.lower() in DEFAULTS else _read(what, given, strict, most)


def given_stream(stream: str, strict: bool, options: dict[str, Any], messages: int | None, seed: int) -> GivenStream:
    """Draw or read it; the seed of the senders draws a made stream too, and of a file --messages are the first."""
    from keyspread.cli.screens import layout
    from keyspread.streams.generated.catalog import DEFAULTS

    named = {name: value for name, value in options.items() if value is not None}
    made = stream.lower() in DEFAULTS
    if made:
        named["seed"] = seed
    if messages is not None:
        named["messages" if made else "limit"] = messages
    found = find_stream(stream, named, strict=strict, most=2**61)
    if found.malformed is not None and found.malformed.count:
        layout.note(f"{stream}: skipped {found.malformed}")
    return found


def refuse_foreign(what: str, given: dict[str, Any]) -> None:
    """Refuse options that this stream has no use for, all in one line."""
    from keyspread.streams.generated.catalog import DEFAULTS, shown, taken_by

    taken = DEFAULTS.get(what.lower(), _OF_FILES)
    wrong = {name: value for name, value in given.items() if name not in taken}
    if not wrong:
        return
    owners = {name: "files" if name in _OF_FILES else taken_by(name) for name in wrong}
    first, *others = (f"--{name} {{}}for {owner} only" for name, owner in owners.items())
    said = ", ".join([first.format("is "), *(other.format("") for other in others)])
    got = ", ".join(map(shown, wrong.values()))
    raise InputError(f"{said}, got {got} with {what}: leave {'them' if others else 'it'} out")


def _draw(name: str, given: dict[str, Any], most: int) -> GivenStream:
    from rich.console import Console

    from keyspread.cli.screens import layout
    from keyspread.streams.generated.catalog import DEFAULTS, named_stream

    stream = named_stream(name, **given)
    if stream.messages > most:
        remedy = f"--messages {most:.0e}"
        if "scale" in DEFAULTS[name]:
            full = stream.messages / given.get("scale", 1.0)
            remedy = f"--scale {most / full:.1g}"
        raise InputError(_too_many(stream.title, f"{stream.messages:,}", most, remedy))
    watched = sys.stderr.isatty() and stream.messages > _SLOW
    with layout.steps(Console(stderr=True) if watched else None, 1) as step:
        step("drawing")
        return GivenStream(stream.title, stream.encoded(), {"name": name, **stream.parameters()}, made=stream)


def _read(path: str, given: dict[str, Any], strict: bool, most: int) -> GivenStream:
    from keyspread.cli.screens import layout
    from keyspread.streams import read_stream, total_bytes
    from keyspread.streams.encoded import Encoded
    from keyspread.streams.generated.catalog import NAMES

    if not os.path.exists(path) and not glob.has_magic(path):
        raise InputError(f"{path} is neither a made stream ({', '.join(NAMES)}) nor a file: check the name")
    title = os.path.basename(path.rstrip("/")) or path
    limit = given.get("limit", most + 1)  # one more than it may have shows that it has more
    if given.get("limit", 0) > most:
        raise InputError(f"--limit {limit:,} is more than the {most:,} messages that describe takes into memory")
    try:
        with layout.late_progress(f"reading {title}", total_bytes(path)) as progress:
            found = read_stream(path, **{**given, "limit": limit}, strict=strict, progress=progress)
    except InputError as problem:
        raise as_options(problem) from problem
    if found.hashes.size > most:
        raise InputError(_too_many(title, f"more than {most:,}", most, f"--limit {most:.0e}"))
    return GivenStream(
        title,
        Encoded.of(found.hashes),
        {"path": path, **given},
        texts=found.keys,
        span=_span(found.times),
        malformed=found.malformed,
    )


def _too_many(title: str, messages: str, most: int, remedy: str) -> str:
    return f"{title} has {messages} messages, describe takes {most:,} into memory: take {remedy} or less"


def _span(times: "npt.NDArray[Any]") -> tuple[float, float] | None:
    first, last = float(times.min()), float(times.max())
    return (first, last) if _UNIX[0] <= first and last <= _UNIX[1] else None


def _numbers(made: "GeneratedStream", hashes: set[int]) -> dict[int, int]:
    """Find the keys 1, 2, … that have these hashes; the hot ones are mostly among the first."""
    import numpy as np

    from keyspread.hashing import hash_keys

    found: dict[int, int] = {}
    keys, begin, wanted = made.law().keys, 1, np.array(sorted(hashes), np.int64)
    while len(found) < len(hashes) and begin <= keys:
        end = min(begin + (1 << 18), keys + 1)
        some = hash_keys(np.arange(begin, end))
        places = np.flatnonzero(np.isin(some, wanted))
        found |= zip(some[places].tolist(), (begin + places).tolist(), strict=True)
        begin = end
    return found


def clean(text: str) -> str:
    """Leave out what a terminal would obey."""
    return "".join(sign if sign.isprintable() else "?" for sign in " ".join(text.split()))


def as_options(problem: InputError) -> InputError:
    """Say 'pass --key', as a command has it, where the library says 'pass key='."""
    said = re.sub(r"\b(pass|for) (format|key|time)=(?=')", r"\1 --\2 ", str(problem))
    return InputError(re.sub(r"\b(pass|for) (format|key|time)=", r"\1 --\2", said))
