"""The options that name and describe the input, the same in every command; and what the shell offers after Tab."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from keyspread.cli.options.command import COUNT, NAME, NUMBER, PATH
from keyspread.errors import InputError

# Values that the shell offers for an option. Typer keeps those that start with what was typed.


def streams() -> list[str]:
    """Return the names of generated streams; where none fits, the shell offers files."""
    from keyspread.streams.catalog import NAMES

    return list(NAMES)


def schemes() -> list[str]:
    """Return every scheme that can be simulated, published alternatives included."""
    from keyspread.sender.registry import DESCRIPTORS

    return [scheme.name for scheme in DESCRIPTORS]


def run_schemes() -> list[str]:
    """Return every scheme that can run on Spark."""
    from keyspread.sender.registry import DESCRIPTORS, Kind

    return [scheme.name for scheme in DESCRIPTORS if scheme.kind is not Kind.PEER]


def scheme_list(incomplete: str) -> list[str]:
    """Complete the last name of a list with commas: 'key,d' → 'key,d-choices'."""
    before, comma, _ = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in run_schemes()]


def formats() -> list[str]:
    """Return the formats of input files."""
    from keyspread.streams.formats import FORMATS

    return list(FORMATS)


def run_formats() -> list[str]:
    """Return formats that Spark's readers have; connectors may add others."""
    return ["csv", "json", "kafka", "orc", "parquet", "table", "tsv"]


INPUT, GENERATED, FILES = "Input", "Generated streams", "Input files"
DEFAULT_INPUT = "zipf"
COLUMN: dict[str, Any] = {"metavar": "COLUMN"}


def given(**options: Any) -> dict[str, Any]:
    """Return the options that were given: those that are not None."""
    return {name: value for name, value in options.items() if value is not None}


def _input(help: str, completion_values: Any, metavar: str, *names: str) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=INPUT, autocompletion=completion_values, metavar=metavar)


def _generated(help: str, default: str | None = None, **more: Any) -> Any:
    return typer.Option(help=help, rich_help_panel=GENERATED, show_default=default or False, **more)


def _files(help: str, *names: str, default: str | None = None, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=FILES, show_default=default or False, **more)


_STREAMS = "Generated stream (zipf, drift, wp, tw, ct: see [b]keyspread datasets list[/b])"

StreamOrPath = Annotated[
    str, _input(f"{_STREAMS}, or a file, folder or pattern", streams, "NAME|PATH", "--input", "--stream")
]
StreamName = Annotated[str, _input(_STREAMS, streams, "NAME")]
RunInputName = Annotated[str, _input(f"{_STREAMS}, or what Spark reads: a path, table or topic", streams, "NAME|PATH")]

Skew = Annotated[
    float | None, _generated("zipf, drift: Zipf exponent; 0 is uniform", "1.4 for zipf, 1.2 for drift", **NUMBER)
]
Keys = Annotated[int | None, _generated("zipf, drift: number of keys", "1e4 for zipf, 1e5 for drift", **COUNT)]
_MESSAGES = "zipf, drift: number of messages"
Messages = Annotated[int | None, _generated(f"{_MESSAGES}; files: maximum to read", "1e6; files: all", **COUNT)]
MessagesToRun = Annotated[int | None, _generated(_MESSAGES, "1e6; 24000 if three ways are timed", **COUNT)]
MessagesToDraw = Annotated[int | None, _generated(_MESSAGES, "1e6", **COUNT)]
MessagesToRead = Annotated[int | None, _files("Maximum number of messages to read per file", default="all", **COUNT)]
Every = Annotated[int | None, _generated("drift: messages between two changes of the hot keys", "50000", **COUNT)]
Hottest = Annotated[int | None, _generated("drift: number of hottest ranks that change keys", "100", **COUNT)]
Redrawn = Annotated[float | None, _generated("drift: share of these ranks that changes each time", "1", **NUMBER)]
Scale = Annotated[float | None, _generated("wp, tw, ct: size as a share of the original", "1", **NUMBER)]
Seed = Annotated[
    int | None,
    typer.Option(
        help="Random seed: the same seed gives the same result", rich_help_panel=INPUT, show_default="0", **COUNT
    ),
]

Format = Annotated[
    str | None,
    _files(
        "tsv (time<TAB>key), wikibench, words, cashtags, csv, json or parquet",
        default="from the file name",
        autocompletion=formats,
        **NAME,
    ),
]
Key = Annotated[list[str] | None, _files("Column of the key: csv, json, parquet", **COLUMN)]
Time = Annotated[str | None, _files("Column to sort by: csv, json, parquet", default="as in the file", **COLUMN)]
Strict = Annotated[bool, _files("Stop with an error at the first malformed line", "--strict")]


@dataclass(frozen=True)
class GeneratedInput:
    """A generated stream; None stands for the default of that stream."""

    input: StreamName = DEFAULT_INPUT
    seed: Seed = None
    skew: Skew = None
    keys: Keys = None
    messages: MessagesToDraw = None
    every: Every = None
    hottest: Hottest = None
    redrawn: Redrawn = None
    scale: Scale = None

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the generated stream that were given."""
        law = given(skew=self.skew, keys=self.keys, messages=self.messages, every=self.every)
        return law | given(hottest=self.hottest, redrawn=self.redrawn, scale=self.scale, seed=self.seed)


def one_column(key: list[str] | None) -> str | None:
    """Return the column of the key; refuse several, which only `run` can read."""
    if key and len(key) > 1:
        columns = ", ".join(key)
        raise InputError(f"--key takes one column here, got {columns}: join them into one, or use keyspread run")
    return key[0] if key else None


@dataclass(frozen=True)
class StreamInput(GeneratedInput):
    """A generated stream or files, read into memory; what simulate, compare and datasets describe take."""

    input: StreamOrPath = DEFAULT_INPUT
    messages: Messages = None
    format: Format = None
    key: Key = None
    time: Time = None
    strict: Strict = False

    def parameters(self) -> dict[str, Any]:
        """Return the parameters that were given, of a generated stream or of files."""
        return super().parameters() | given(format=self.format, key=one_column(self.key), time=self.time)


@dataclass(frozen=True)
class FileInputs:
    """Files that replace the generated streams of an experiment."""

    input: Annotated[
        list[str] | None,
        _files("File, or folder whose entries are one stream each; repeat the option for several", **PATH),
    ] = None
    format: Format = None
    key: Key = None
    time: Time = None
    messages: MessagesToRead = None
