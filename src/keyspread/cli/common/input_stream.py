"""The stream that --input names, in memory: a generated stream by its name, or files by their path."""

import glob
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from keyspread.cli.common import layout
from keyspread.errors import InputError

if TYPE_CHECKING:
    from keyspread.cli.options.input import StreamInput
    from keyspread.streams import GeneratedStream, Stream
    from keyspread.streams.encoded import Encoded

_FILE_OPTIONS = ("format", "key", "time", "messages")


@dataclass(frozen=True)
class InputStream:
    """A stream in memory, and what is known about it besides its messages: how it was generated, or the files."""

    input: str
    """The value of --input."""
    title: str
    encoded: "Encoded"
    parameters: dict[str, Any]
    generated: "GeneratedStream | None" = None
    files: "Stream | None" = None

    def facts(self) -> dict[str, Any]:
        """Return what a command prints as JSON about its input."""
        malformed = 0 if self.files is None else self.files.malformed.count
        return {"input": self.input, **self.parameters, "malformed": malformed}

    def names(self, hashes: list[int]) -> dict[int, Any]:
        """Return the key of every hash: text in a file, a number in a generated stream."""
        if self.generated is not None:
            return _numbers(self.generated, set(hashes))
        return {} if self.files is None else self.files.key_texts(hashes)

    def label(self, key: Any) -> str:
        """Return a key as the screen shows it."""
        return f"key {key:,}" if self.generated is not None else clean(key) or repr(key)


def read_input(options: "StreamInput", *, routed: bool) -> InputStream:
    """Draw the generated stream that --input names, or read the files.

    If the stream is `routed`, --seed also seeds the senders, so it is allowed with files.
    """
    from keyspread.streams.catalog import DEFAULTS

    parameters = options.parameters()
    generated = options.input.lower() in DEFAULTS
    if routed and not generated:
        parameters.pop("seed", None)
    refuse_unused(options.input, parameters)
    return _draw(options.input.lower(), parameters) if generated else _read(options.input, parameters, options.strict)


def refuse_unused(source: str, given: Mapping[str, Any], file_options: Sequence[str] = _FILE_OPTIONS) -> None:
    """Raise an error for the first option that this input does not use."""
    from keyspread.streams.catalog import DEFAULTS, shown

    for option, value in given.items():
        if option not in DEFAULTS.get(source.lower(), file_options):
            users = [stream for stream, taken in DEFAULTS.items() if option in taken]
            users += ["files"] if option in file_options else []
            listed = " and ".join(filter(None, [", ".join(users[:-1]), users[-1]]))
            raise InputError(f"--{option} is for {listed} only, got {shown(value)} with {source}: leave it out")


def _draw(name: str, parameters: dict[str, Any]) -> InputStream:
    from keyspread.streams.catalog import named_stream

    stream = named_stream(name, **parameters)
    return InputStream(name, stream.title, stream.encoded(), {"name": name, **stream.parameters()}, stream)


def _read(path: str, parameters: dict[str, Any], strict: bool) -> InputStream:
    from keyspread.streams import read_stream, total_bytes
    from keyspread.streams.catalog import NAMES
    from keyspread.streams.encoded import Encoded

    if not os.path.exists(path) and not glob.has_magic(path):
        raise InputError(f"{path} is neither a generated stream ({', '.join(NAMES)}) nor a file: check the name")
    title = os.path.basename(path.rstrip("/")) or path
    reading = {"limit" if name == "messages" else name: value for name, value in parameters.items()}
    try:
        with layout.late_progress(f"reading {title}", total_bytes(path)) as progress:
            stream = read_stream(path, **reading, strict=strict, progress=progress)
    except InputError as problem:
        raise as_options(problem) from problem
    shown = {"path": path, **{"file_format" if name == "format" else name: value for name, value in parameters.items()}}
    return InputStream(path, title, Encoded.of(stream.hashes), shown, files=stream)


def _numbers(stream: "GeneratedStream", hashes: set[int]) -> dict[int, int]:
    """Find the keys 1, 2, … that have these hashes; the hot ones are mostly among the first."""
    import numpy as np

    from keyspread.hashing import hash_keys

    numbers: dict[int, int] = {}
    keys, begin, missing = stream.law().keys, 1, np.array(sorted(hashes), np.int64)
    while len(numbers) < len(hashes) and begin <= keys:
        end = min(begin + (1 << 18), keys + 1)
        candidates = hash_keys(np.arange(begin, end))
        places = np.flatnonzero(np.isin(candidates, missing))
        numbers |= zip(candidates[places].tolist(), (begin + places).tolist(), strict=True)
        begin = end
    return numbers


def note_malformed(stream: InputStream) -> None:
    """Print a note about lines that were skipped, if there are any."""

    if stream.files is not None and stream.files.malformed.count:
        layout.note(f"{stream.input}: skipped {stream.files.malformed}")


def clean(text: str) -> str:
    """Replace what a terminal would interpret: control characters, line breaks."""
    return "".join(sign if sign.isprintable() else "?" for sign in " ".join(text.split()))


def as_options(problem: InputError) -> InputError:
    """Rewrite 'pass key=' of the library as 'pass --key', the way a user of the command says it."""
    said = re.sub(r"\b(pass|for) (format|key|time)=(?=')", r"\1 --\2 ", str(problem))
    return InputError(re.sub(r"\b(pass|for) (format|key|time)=", r"\1 --\2", said))
