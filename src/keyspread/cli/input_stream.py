"""The stream that --input names, in memory: a generated stream by its name, or files by their path."""

import glob
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from keyspread.errors import InputError

if TYPE_CHECKING:
    import numpy.typing as npt

    from keyspread.cli.options.input import StreamInput
    from keyspread.streams import GeneratedStream
    from keyspread.streams.encoded import Encoded

DESCRIBED_MESSAGES = 50_000_000
"""Messages that `datasets describe` reads into memory at most."""
_UNLIMITED = 2**61
_SLOW = 2_000_000
"""Drawing more messages than this takes long enough for a progress bar."""
_UNIX_SECONDS = (631_152_000, 4_102_444_800)
"""1990 to 2100: times within this range are shown as dates."""
_FILE_OPTIONS = ("format", "key", "time", "messages")


@dataclass(frozen=True)
class InputStream:
    """A stream in memory, and what is known about it besides its messages."""

    title: str
    encoded: "Encoded"
    parameters: dict[str, Any]
    generated: "GeneratedStream | None" = None
    texts: Any = None
    span: "tuple[float, float] | None" = None
    malformed: Any = None

    def names(self, hashes: list[int]) -> dict[int, Any]:
        """Return the key of every hash: text in a file, a number in a generated stream."""
        if self.generated is None:
            return {key: self.texts[key] for key in hashes}
        return _numbers(self.generated, set(hashes))

    def label(self, key: Any) -> str:
        """Return a key as the screen shows it."""
        return f"key {key:,}" if self.generated is not None else clean(key) or repr(key)


def read_input(options: "StreamInput", *, routed: bool, maximum: int = _UNLIMITED) -> InputStream:
    """Draw the generated stream that --input names, or read the files.

    If the stream is `routed`, --seed also seeds the senders, so it is allowed with files. A stream with more than
    `maximum` messages is an error; a generated stream is refused before it is drawn.
    """
    from keyspread.streams.generated.catalog import DEFAULTS

    parameters = options.parameters()
    generated = options.input.lower() in DEFAULTS
    if routed and not generated:
        parameters.pop("seed", None)
    refuse_unused(options.input, parameters)
    if generated:
        return _draw(options.input.lower(), parameters, maximum)
    return _read(options.input, parameters, options.strict, maximum)


def refuse_unused(source: str, given: Mapping[str, Any], file_options: Sequence[str] = _FILE_OPTIONS) -> None:
    """Raise one error for all options that this input does not use."""
    from keyspread.streams.generated.catalog import DEFAULTS, shown

    used = DEFAULTS.get(source.lower(), file_options)
    unused = {name: value for name, value in given.items() if name not in used}
    if not unused:
        return
    users = {
        name: [*(stream for stream, taken in DEFAULTS.items() if name in taken), *["files"] * (name in file_options)]
        for name in unused
    }
    first, *others = (f"--{name} {{}}for {_listed(names)} only" for name, names in users.items())
    said = ", ".join([first.format("is "), *(other.format("") for other in others)])
    got = ", ".join(map(shown, unused.values()))
    raise InputError(f"{said}, got {got} with {source}: leave {'them' if others else 'it'} out")


def _listed(names: Sequence[str]) -> str:
    """['zipf', 'drift', 'files'] → 'zipf, drift and files'."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _draw(name: str, parameters: dict[str, Any], maximum: int) -> InputStream:
    from rich.console import Console

    from keyspread.cli.screens import layout
    from keyspread.streams.generated.catalog import DEFAULTS, named_stream

    stream = named_stream(name, **parameters)
    if stream.messages > maximum:
        remedy = f"--messages {maximum:.0e}"
        if "scale" in DEFAULTS[name]:
            full = stream.messages / parameters.get("scale", 1.0)
            remedy = f"--scale {maximum / full:.1g}"
        raise InputError(_too_many(stream.title, f"{stream.messages:,}", maximum, remedy))
    watched = sys.stderr.isatty() and stream.messages > _SLOW
    with layout.steps(Console(stderr=True) if watched else None, 1) as step:
        step("generating")
        return InputStream(stream.title, stream.encoded(), {"name": name, **stream.parameters()}, generated=stream)


def _read(path: str, parameters: dict[str, Any], strict: bool, maximum: int) -> InputStream:
    from keyspread.cli.screens import layout
    from keyspread.streams import read_stream, total_bytes
    from keyspread.streams.encoded import Encoded
    from keyspread.streams.generated.catalog import NAMES

    if not os.path.exists(path) and not glob.has_magic(path):
        raise InputError(f"{path} is neither a generated stream ({', '.join(NAMES)}) nor a file: check the name")
    title = os.path.basename(path.rstrip("/")) or path
    reading = dict(parameters)
    limit = reading.pop("messages", maximum + 1)  # one message more than the maximum shows that there are more
    if "messages" in parameters and limit > maximum:
        raise InputError(f"--messages {limit:,} is more than describe reads into memory, which is {maximum:,}")
    try:
        with layout.late_progress(f"reading {title}", total_bytes(path)) as progress:
            found = read_stream(path, **reading, limit=limit, strict=strict, progress=progress)
    except InputError as problem:
        raise as_options(problem) from problem
    if found.hashes.size > maximum:
        raise InputError(_too_many(title, f"more than {maximum:,}", maximum, f"--messages {maximum:.0e}"))
    return InputStream(
        title,
        Encoded.of(found.hashes),
        {"path": path, **{"file_format" if name == "format" else name: value for name, value in parameters.items()}},
        texts=found.keys,
        span=_span(found.times),
        malformed=found.malformed,
    )


def _too_many(title: str, messages: str, maximum: int, remedy: str) -> str:
    return f"{title} has {messages} messages, describe reads at most {maximum:,} into memory: pass {remedy} or less"


def _span(times: "npt.NDArray[Any]") -> tuple[float, float] | None:
    first, last = float(times.min()), float(times.max())
    return (first, last) if _UNIX_SECONDS[0] <= first and last <= _UNIX_SECONDS[1] else None


def _numbers(stream: "GeneratedStream", hashes: set[int]) -> dict[int, int]:
    """Find the keys 1, 2, … that have these hashes; the hot ones are mostly among the first."""
    import numpy as np

    from keyspread.hashing import hash_keys

    found: dict[int, int] = {}
    keys, begin, wanted = stream.law().keys, 1, np.array(sorted(hashes), np.int64)
    while len(found) < len(hashes) and begin <= keys:
        end = min(begin + (1 << 18), keys + 1)
        candidates = hash_keys(np.arange(begin, end))
        places = np.flatnonzero(np.isin(candidates, wanted))
        found |= zip(candidates[places].tolist(), (begin + places).tolist(), strict=True)
        begin = end
    return found


def note_malformed(source: str, stream: InputStream) -> None:
    """Print a note about lines that were skipped, if there are any."""
    from keyspread.cli.screens import layout

    if stream.malformed is not None and stream.malformed.count:
        layout.note(f"{source}: skipped {stream.malformed}")


def clean(text: str) -> str:
    """Replace what a terminal would interpret: control characters, line breaks."""
    return "".join(sign if sign.isprintable() else "?" for sign in " ".join(text.split()))


def as_options(problem: InputError) -> InputError:
    """Rewrite 'pass key=' of the library as 'pass --key', the way a user of the command says it."""
    said = re.sub(r"\b(pass|for) (format|key|time)=(?=')", r"\1 --\2 ", str(problem))
    return InputError(re.sub(r"\b(pass|for) (format|key|time)=", r"\1 --\2", said))
