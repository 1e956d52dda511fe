"""`keyspread datasets`: which streams there are, what one is like, and a made one as a file.

Each command checks what it was given, calls `keyspread.streams` and prints; below them is what they draw.
"""

import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keyspread.cli.options import count, number
from keyspread.errors import ExtraMissingError, InputError

if TYPE_CHECKING:
    import numpy.typing as npt
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from keyspread.encoded import Encoded
    from keyspread.streams.made import Made
    from keyspread.streams.profile import Profile

_WORKERS = 50
_MOST_MESSAGES = 50_000_000
_SLOW = 2_000_000
"""Messages from which on drawing takes long enough to say so."""
_PLOTS = (".svg", ".png", ".pdf")
_UNIX = (631_152_000, 4_102_444_800)
"""1990 to 2100 in unix seconds: times within are taken for such."""
_MOST_RUNS = 12

_FORMATS = {
    "tsv": "time<TAB>key lines",
    "wikibench": "traces of WikiBench, 'counter time url flag' lines; key = url",
    "words": "tweets, one a line, text or JSON: a message for each word",
    "cashtags": "tweets, one a line, text or JSON: a message for each cashtag",
    "csv": "lines of values under a header; --key and --time name columns",
    "json": "an object a line; --key and --time name fields",
    "parquet": "--key and --time name columns",
}

datasets = typer.Typer(
    help="Streams to try schemes on: which there are, what one is like, a made one as a file.",
    rich_markup_mode="rich",
)


@datasets.callback(invoke_without_command=True)
def _no_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def _made(help: str, **more: Any) -> Any:
    return typer.Option(help=help, rich_help_panel="Made streams", **more)


def _file(help: str, **more: Any) -> Any:
    return typer.Option(help=help, rich_help_panel="Files", **more)


_COUNT: dict[str, Any] = {"parser": count, "metavar": "COUNT"}
_NUMBER: dict[str, Any] = {"parser": number, "metavar": "NUMBER"}

_Skew = Annotated[float | None, _made("Zipf exponent, 0 is uniform.", show_default="zipf 1.4, drift 1.2", **_NUMBER)]
_Keys = Annotated[int | None, _made("Keys of the Zipf law.", show_default="zipf 1e4, drift 1e5", **_COUNT)]
_Messages = Annotated[int | None, _made("Messages of zipf and drift.", show_default="1e6", **_COUNT)]
_Every = Annotated[int | None, _made("drift: messages between changes.", show_default="50000", **_COUNT)]
_Hottest = Annotated[int | None, _made("drift: ranks that get other keys.", show_default="100", **_COUNT)]
_Redrawn = Annotated[float | None, _made("drift: share of them that does, each time.", show_default="1", **_NUMBER)]
_Scale = Annotated[float | None, _made("wp, tw, ct: share of the original's size.", show_default="1", **_NUMBER)]
_Seed = Annotated[int | None, _made("Same seed, same stream.", show_default="0", **_COUNT)]


@datasets.command("list")
def list_(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """List the streams that keyspread makes, and the formats of files that it reads."""
    from keyspread.cli import screen

    known = _known()
    if as_json:
        formats = [{"name": name, "what": what} for name, what in _FORMATS.items()]
        print(json.dumps({"made": known, "formats": formats}, ensure_ascii=False))
        return
    out = screen.console()
    out.print()
    table = _table("made", ("messages", "keys", "p_1"), first=5)
    table.add_column("what it is")
    for one in known:
        what = ("like " if one["look_alike"] else "") + one["what"]
        table.add_row(one["name"], f"{one['messages']:,}", f"{one['keys']:,}", _percent(one["p1"]), what)
    out.print(table)
    out.print()
    table = _table("files", (), first=9)
    table.add_column("plain or gzip; one, a folder or a pattern")
    for name, what in _FORMATS.items():
        table.add_row(name, what)
    out.print(table)
    out.print()
    out.print("See what one is like: keyspread datasets describe ct")
    out.print()


@datasets.command()
def describe(
    what: Annotated[
        str, typer.Argument(help="zipf, drift, wp, tw, ct; or a file, folder or pattern.", metavar="STREAM|PATH")
    ],
    skew: _Skew = None,
    keys: _Keys = None,
    messages: _Messages = None,
    every: _Every = None,
    hottest: _Hottest = None,
    redrawn: _Redrawn = None,
    scale: _Scale = None,
    seed: _Seed = None,
    format: Annotated[
        str | None,
        _file(f"{', '.join(_FORMATS)}.", show_default="by the ending or the first lines", metavar="NAME"),
    ] = None,
    key: Annotated[str | None, _file("Column of the key.", metavar="COLUMN")] = None,
    time: Annotated[str | None, _file("Column of the time, to sort by.", metavar="COLUMN")] = None,
    limit: Annotated[int | None, _file("Read so many messages at most.", **_COUNT)] = None,
    top: Annotated[int, typer.Option(help="Hottest keys to show.", **_COUNT)] = 10,
    windows: Annotated[int, typer.Option(help="Windows of equal message count.", **_COUNT)] = 10,
    plot: Annotated[str | None, typer.Option(help="Draw it into a .svg, .png or .pdf.", metavar="FILE")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show what a stream is like: how hot its keys are, by which law, and whether they change.

    [b]keyspread datasets describe ct[/b]
    [b]keyspread datasets describe clicks.csv --key user --time at --plot clicks.svg[/b]
    """
    from keyspread import checks
    from keyspread.streams.named import DEFAULTS
    from keyspread.streams.profile import profile

    made = _given(skew=skew, keys=keys, messages=messages, every=every, hottest=hottest, redrawn=redrawn)
    made |= _given(scale=scale, seed=seed)
    read = _given(format=format, key=key, time=time, limit=limit)
    _refuse_foreign(what, {**made, **read})
    checks.whole_number("top", top, minimum=0)
    checks.whole_number("windows", windows)
    if plot is not None:
        _check_plot(plot)
    found = _draw(what.lower(), made) if what.lower() in DEFAULTS else _read(what, read)
    result = profile(found.encoded, windows, top)
    names = found.names([hash_ for hash_, _ in (*result.top, *result.leaders)])
    if plot is not None:
        _plot(found, result, names, plot)
    if as_json:
        print(json.dumps(_as_json(found, result, names, plot), ensure_ascii=False))
    else:
        _show(found, result, names, plot)


@datasets.command()
def make(
    what: Annotated[str, typer.Argument(help="zipf, drift, wp, tw or ct.", metavar="STREAM")],
    out: Annotated[str, typer.Argument(help="File to write: .tsv, .tsv.gz or .parquet.", metavar="FILE")],
    skew: _Skew = None,
    keys: _Keys = None,
    messages: _Messages = None,
    every: _Every = None,
    hottest: _Hottest = None,
    redrawn: _Redrawn = None,
    scale: _Scale = None,
    seed: _Seed = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it is there.")] = False,
) -> None:
    """Write a made stream to a file, message i at time i: time<TAB>key lines, or the columns time and key.

    [b]keyspread datasets make wp wp.tsv.gz --scale 0.05[/b]
    """
    from keyspread.cli import screen
    from keyspread.streams.named import DEFAULTS, made_stream, write_stream

    given = _given(skew=skew, keys=keys, messages=messages, every=every, hottest=hottest, redrawn=redrawn)
    given |= _given(scale=scale, seed=seed)
    if what.lower() in DEFAULTS:
        _refuse_foreign(what, given)
    stream = made_stream(what, **given)
    with screen.late_progress(f"writing {os.path.basename(out)}", stream.messages) as progress:
        write_stream(stream, out, overwrite=overwrite, progress=progress)
    size = os.path.getsize(out) / 1e6
    print(f"{stream.messages:,} messages of {stream.title} in {out}, {size:,.1f} MB")


@dataclass(frozen=True)
class _Found:
    """A stream in memory, and what is known of it besides its messages."""

    title: str
    encoded: "Encoded"
    parameters: dict[str, Any]
    made: "Made | None" = None
    texts: Any = None
    span: "tuple[float, float] | None" = None
    malformed: Any = None

    def names(self, hashes: list[int]) -> dict[int, Any]:
        """Give each key as its user knows it: a text of the file, the number in a made stream."""
        if self.made is None:
            return {key: self.texts[key] for key in hashes}
        return _numbers(self.made, set(hashes))


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _known() -> list[dict[str, Any]]:
    from keyspread.streams import ORIGINALS, zipf_probabilities
    from keyspread.streams.named import DEFAULTS

    whats = {
        "zipf": "a Zipf law with exponent {skew:g}",
        "drift": "Zipf {skew:g}, other hot keys every {every:,} messages",
    }
    known = []
    for name, what in whats.items():
        law = DEFAULTS[name]
        p1 = float(zipf_probabilities(law["skew"], law["keys"])[0])
        known.append({"name": name, "what": what.format(**law), "look_alike": False, **law, "p1": p1})
    for name, one in ORIGINALS.items():
        sizes = {"messages": one.messages, "keys": one.keys, "p1": one.p1}
        known.append({"name": name, "what": one.what, "look_alike": True, **DEFAULTS[name], **sizes})
    return known


def _refuse_foreign(what: str, given: dict[str, Any]) -> None:
    """Refuse options that this stream has no use for, all in one line."""
    from keyspread.streams.named import DEFAULTS, shown, taken_by

    of_files = ("format", "key", "time", "limit")
    taken = DEFAULTS.get(what.lower(), of_files)
    wrong = {name: value for name, value in given.items() if name not in taken}
    if not wrong:
        return
    owners = {name: "files" if name in of_files else taken_by(name) for name in wrong}
    first, *others = (f"--{name} {{}}for {owner} only" for name, owner in owners.items())
    said = ", ".join([first.format("is "), *(other.format("") for other in others)])
    got = ", ".join(map(shown, wrong.values()))
    raise InputError(f"{said}, got {got} with {what}: leave {'them' if others else 'it'} out")


def _draw(name: str, given: dict[str, Any]) -> _Found:
    from rich.console import Console

    from keyspread.cli import screen
    from keyspread.streams.named import DEFAULTS, made_stream

    stream = made_stream(name, **given)
    if stream.messages > _MOST_MESSAGES:
        remedy = "--messages 5e7"
        if "scale" in DEFAULTS[name]:
            full = stream.messages / given.get("scale", 1.0)
            remedy = f"--scale {_MOST_MESSAGES / full:.1g}"
        raise InputError(_too_many(stream.title, f"{stream.messages:,}", remedy))
    watched = sys.stderr.isatty() and stream.messages > _SLOW
    with screen.steps(Console(stderr=True) if watched else None, 1) as step:
        step("drawing")
        return _Found(stream.title, stream.encoded(), {"name": name, **stream.parameters()}, made=stream)


def _read(path: str, given: dict[str, Any]) -> _Found:
    import glob

    from keyspread.cli import screen
    from keyspread.encoded import Encoded
    from keyspread.streams import read_stream
    from keyspread.streams.files import total_bytes
    from keyspread.streams.named import NAMES

    if not os.path.exists(path) and not glob.has_magic(path):
        raise InputError(f"{path} is neither a made stream ({', '.join(NAMES)}) nor a file: check the name")
    title = os.path.basename(path.rstrip("/")) or path
    limit = given.get("limit", _MOST_MESSAGES + 1)  # one more than it may have shows that it has more
    if given.get("limit", 0) > _MOST_MESSAGES:
        raise InputError(
            f"--limit {limit:,} is more than the {_MOST_MESSAGES:,} messages that describe takes into memory"
        )
    try:
        with screen.late_progress(f"reading {title}", total_bytes(path)) as progress:
            found = read_stream(path, **{**given, "limit": limit}, progress=progress)
    except InputError as problem:
        # 'pass key=' is said to those who call the library.
        said = re.sub(r"\b(pass|for) (format|key|time)=(?=')", r"\1 --\2 ", str(problem))
        raise InputError(re.sub(r"\b(pass|for) (format|key|time)=", r"\1 --\2", said)) from problem
    if found.hashes.size > _MOST_MESSAGES:
        raise InputError(_too_many(title, f"more than {_MOST_MESSAGES:,}", "--limit 5e7"))
    return _Found(
        title,
        Encoded.of(found.hashes),
        {"path": path, **given},
        texts=found.keys,
        span=_span(found.times),
        malformed=found.malformed,
    )


def _too_many(title: str, messages: str, remedy: str) -> str:
    return f"{title} has {messages} messages, describe takes {_MOST_MESSAGES:,} into memory: take {remedy} or less"


def _span(times: "npt.NDArray[Any]") -> tuple[float, float] | None:
    first, last = float(times.min()), float(times.max())
    return (first, last) if _UNIX[0] <= first and last <= _UNIX[1] else None


def _numbers(made: "Made", hashes: set[int]) -> dict[int, int]:
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


def _as_json(found: _Found, result: "Profile", names: dict[int, Any], plot: str | None) -> dict[str, Any]:
    from keyspread.streams.profile import HOT_SHARE

    malformed = asdict(found.malformed) if found.malformed is not None else {"count": 0}
    plain = asdict(result)
    return {
        "title": found.title,
        "parameters": found.parameters,
        **{name: plain[name] for name in ("messages", "keys", "p1")},
        "hot_from": HOT_SHARE,
        **{name: plain[name] for name in ("hot_keys", "hot_share", "half", "evenness", "exponent", "drift")},
        "top": [
            {"key": names[key], "hash": key, "messages": many, "share": many / result.messages}
            for key, many in result.top
        ],
        "law": result.law,
        "leaders": [{"key": names[key], "hash": key, "share": share} for key, share in result.leaders],
        "p1_over_time": result.p1_over_time,
        "from": None if found.span is None else _moment(found.span[0]).isoformat(),
        "to": None if found.span is None else _moment(found.span[1]).isoformat(),
        "malformed": malformed,
        "plot": plot,
    }


def _moment(seconds: float) -> Any:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC)


def _show(found: _Found, result: "Profile", names: dict[int, Any], plot: str | None) -> None:
    """Draw it for people."""
    from rich.text import Text

    from keyspread.cli import screen

    out = screen.console()
    out.print()
    out.print(Text(_clean(found.title), "bold"))
    for line in _remarks(found):
        out.print(Text(line, screen.QUIET_STYLE))
    out.print()
    out.print(_facts(result))
    if result.top:
        out.print()
        table = _table("hottest keys", ("messages", "share"), first=14)
        for key, many in result.top:
            table.add_row(Text(_label(found, names[key])), f"{many:,}", _percent(many / result.messages))
        out.print(table)
    if result.keys > 1:
        out.print()
        for text in _law_plot(result, out):
            out.print(text)
    if result.leaders:
        out.print()
        _show_drift(found, result, names, out)
    if result.messages:
        out.print()
        out.print(Text(_verdict(result), "bold"))
    if plot is not None:
        out.print(Text(f"the plot in {plot}"), soft_wrap=True)
    out.print()


def _table(title: str, numbers: tuple[str, ...], first: int) -> "Table":
    from rich.table import Table

    from keyspread.cli import screen

    table = Table(box=None, padding=(0, 2, 0, 0), header_style=screen.QUIET_STYLE, pad_edge=False)
    table.add_column(title, min_width=first, max_width=40, no_wrap=True, overflow="ellipsis")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _remarks(found: _Found) -> list[str]:
    lines = []
    if found.span is not None:
        first, last = map(_moment, found.span)
        days = (last - first).total_seconds() / 86_400
        lasted = f"{days:,.1f} days" if days >= 2 else f"{24 * days:,.1f} hours"
        lines.append(f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC, {lasted}")
    if found.malformed is not None and found.malformed.count:
        lines.append(f"left out {_clean(str(found.malformed))}")
    return lines


def _facts(result: "Profile") -> "Table":
    from keyspread.cli import screen
    from keyspread.streams.profile import HOT_SHARE

    exponent = "none" if result.exponent is None else f"{result.exponent:.2f}"
    return screen.facts(
        [
            ("messages", f"{result.messages:,}", f"hot keys, {_percent(HOT_SHARE)} or more", f"{result.hot_keys:,}"),
            ("keys", f"{result.keys:,}", "their share together", _percent(result.hot_share)),
            ("hottest key, p_1", _percent(result.p1), "keys that have half of all", f"{result.half:,}"),
            ("Zipf exponent, fitted", exponent, "evenness, 1 if all are alike", f"{result.evenness:.2f}"),
        ]
    )


def _law_plot(result: "Profile", out: "Console", width: int = 66, height: int = 10) -> "list[Text]":
    """Share over rank, both on a log scale: columns filled up to the share, hot keys darker."""
    import math

    import numpy as np
    from rich.text import Text

    from keyspread.cli import screen
    from keyspread.streams.profile import HOT_SHARE

    nice = screen.can_print(out, "█▒▁▂▃▄▅▆▇┤│└─┬")
    full, light, parts, side, tick, corner, line, down = (
        ("█", "▒", " ▁▂▃▄▅▆▇", "│", "┤", "└", "─", "┬") if nice else ("#", "=", "  ..::##", "|", "+", "+", "-", "+")
    )
    shares = [share for _, share in result.law]
    top, bottom = math.ceil(math.log10(shares[0]) - 1e-9), math.floor(math.log10(shares[-1]) + 1e-9)
    bottom = min(bottom, top - 1)
    a_decade = max(1, height // (top - bottom))
    rows = a_decade * (top - bottom)
    last = math.log(result.keys)
    at = np.linspace(0, last, width)
    logs = np.interp(at, np.log([rank for rank, _ in result.law]), np.log10(shares))
    legend = Text.assemble("share of each key by its rank, log scales   ", (full, screen.HEAD_STYLE), " hot keys  ")
    drawn = [legend + Text.assemble((light, screen.TAIL_STYLE), " other keys")]
    labels = {
        a_decade * decade: f"{10.0 ** (2 + top - decade):.{max(0, decade - top - 2)}f} %"
        for decade in range(top - bottom + 1)
    }
    margin = max(map(len, labels.values()))
    for row in range(rows):
        text = Text(f"{labels.get(row, ''):>{margin}} {tick if row in labels else side}", screen.QUIET_STYLE)
        for value in logs:
            filled = (value - bottom) * a_decade - (rows - 1 - row)  # of this cell, 1 and more is all
            filled = max(filled, 0.5) if row == rows - 1 else filled  # the rarest keys are keys too
            if value >= math.log10(HOT_SHARE) - 1e-9:
                text.append(full if filled >= 1 else parts[max(0, int(8 * filled))], screen.HEAD_STYLE)
            else:
                text.append(light if filled >= 0.5 else " ", screen.TAIL_STYLE)
        drawn.append(text)
    axis, numbers = [line] * width, " " * width
    for rank in [10**power for power in range(len(str(result.keys)))]:
        column = round((width - 1) * math.log(rank) / last)
        axis[column] = down
        if column + len(f"{rank:,}") <= width:
            numbers = numbers[:column] + f"{rank:,}" + numbers[column + len(f"{rank:,}") :]
    drawn.append(Text(f"{labels[rows]:>{margin}} {corner}{''.join(axis)}", screen.QUIET_STYLE))
    drawn.append(Text(f"{'rank':>{margin}}  {numbers}".rstrip(), screen.QUIET_STYLE))
    return drawn


def _show_drift(found: _Found, result: "Profile", names: dict[int, Any], out: "Console") -> None:
    from itertools import groupby

    from rich.text import Text

    from keyspread.cli import screen

    course = result.p1_over_time
    out.print(f"share of the hottest key over time, log scale, {_range(course)}")
    wide = [share for share in course for _ in range(max(1, 50 // len(course)))]
    out.print(screen.sparkline(wide, out), style=screen.HEAD_STYLE)
    if len(course) > 1:
        kept = "all" if result.drift == 0 else f"{100 * (1 - result.drift):.0f} %"
        out.print(f"drift {result.drift:.2f}: {kept} of a window's ten hottest keys are among those of the next")
    runs: list[tuple[int, int, int]] = []
    for key, group in groupby(enumerate(result.leaders), key=lambda one: one[1][0]):
        places = [place for place, _ in group]
        runs.append((key, places[0], places[-1]))
    table = _table("who leads", ("windows", "share"), first=14)
    for key, first, last in runs[:_MOST_RUNS]:
        windows = f"{first + 1}" if first == last else f"{first + 1} to {last + 1}"
        table.add_row(Text(_label(found, names[key])), windows, _range(course[first : last + 1]))
    out.print(table)
    if len(runs) > _MOST_RUNS:
        out.print(f"and {len(runs) - _MOST_RUNS:,} further changes", style=screen.QUIET_STYLE)


def _verdict(result: "Profile") -> str:
    overall, in_window = _WORKERS * result.p1, _WORKERS * max(result.p1_over_time)
    said = f"Of {_WORKERS} workers the hottest key alone would keep {overall:.1f} busy"
    # A window of a few messages always has a key with a large share of them.
    if in_window > max(1, 1.5 * overall) and result.messages >= 5 * _WORKERS * len(result.leaders):
        return f"{said}, in a window up to {in_window:.1f}."
    return f"{said}." if overall > 1 else f"No key alone would keep one of {_WORKERS} workers busy."


def _label(found: _Found, key: Any) -> str:
    return f"key {key:,}" if found.made is not None else _clean(key) or repr(key)


def _clean(text: str) -> str:
    """Leave out what a terminal would obey."""
    return "".join(sign if sign.isprintable() else "?" for sign in " ".join(text.split()))


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %" if share >= 1e-4 or not share else f"{100 * share:.1e} %"


def _range(shares: Sequence[float]) -> str:
    low, high = _percent(min(shares)), _percent(max(shares))
    return low if low == high else f"{low} to {high}"


def _check_plot(path: str) -> None:
    """Refuse, before anything is read, a plot that cannot be made."""
    if not path.lower().endswith(_PLOTS):
        raise InputError(f"--plot must end in {', '.join(_PLOTS[:-1])} or {_PLOTS[-1]}, got {path}")
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        raise InputError(f"--plot {path} is a folder: name a file")
    if not os.path.isdir(folder):
        raise InputError(f"--plot {path} cannot be written: there is no folder {folder}, make it first")
    if not os.access(folder, os.W_OK):
        raise InputError(f"--plot {path} cannot be written: check the rights of {folder}")
    try:
        import keyspread.report.style  # noqa: F401
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "matplotlib":
            raise
        raise ExtraMissingError(
            "--plot needs matplotlib, which is not installed: pip install 'keyspread[report]'"
        ) from error


def _plot(found: _Found, result: "Profile", names: dict[int, Any], path: str) -> None:
    """Draw the law on the left and, on the right, the hottest key of each window with its name."""
    import warnings

    import matplotlib
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    from keyspread.report import style

    made, axes = style.picture(1, 2, width=4.4, height=3.1)
    made.suptitle(_clean(found.title), fontsize=10, fontweight="bold", parse_math=False)
    law, course = axes[0]
    _plot_law(law, result)
    _plot_leaders(course, result, {key: _label(found, name) for key, name in names.items()})
    course.xaxis.set_major_locator(MaxNLocator(integer=True))
    for one in (law, course):
        one.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))
        one.title.set_fontsize(9.5)
        for text in (one.xaxis.label, one.yaxis.label):
            text.set_fontsize(9)
        one.tick_params(labelsize=8)
    with warnings.catch_warnings(), matplotlib.rc_context({"svg.hashsalt": "keyspread"}):
        warnings.simplefilter("ignore")  # letters that the font does not have are drawn as boxes
        metadata = {"CreationDate": None} if path.lower().endswith(".pdf") else {}
        metadata |= {"Date": None} if path.lower().endswith(".svg") else {}
        try:
            made.savefig(path, dpi=160, metadata=metadata)
        except OSError as problem:
            raise InputError(f"--plot {path} cannot be written ({problem.strerror or problem})") from problem


def _plot_law(axes: Any, result: "Profile") -> None:
    from matplotlib.ticker import FuncFormatter

    from keyspread.report import style
    from keyspread.streams.profile import HOT_SHARE

    fitted = "" if result.exponent is None else f", Zipf exponent {result.exponent:.2f}"
    axes.set(title=f"{result.keys:,} keys{fitted}", xlabel="rank of the key", ylabel="share of the messages")
    if not result.law:
        return
    style.line(axes, [rank for rank, _ in result.law], [share for _, share in result.law], 0, "")
    axes.set(xscale="log", yscale="log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda rank, _: f"{rank:,.0f}"))
    axes.axhline(HOT_SHARE, color="#555555", linewidth=0.8, linestyle=":")
    place = {"xycoords": ("axes fraction", "data"), "xytext": (0, 2), "textcoords": "offset points", "ha": "right"}
    axes.annotate(f"{result.hot_keys:,} hot keys, {_percent(HOT_SHARE)} or more", (1, HOT_SHARE), fontsize=8, **place)


def _plot_leaders(axes: Any, result: "Profile", labels: dict[int, str]) -> None:
    from keyspread.report import style

    shares = result.p1_over_time
    axes.plot(range(1, len(shares) + 1), shares, color="#bbbbbb", linewidth=1, zorder=2)
    leads: dict[int, list[int]] = {}
    for place, (key, _) in enumerate(result.leaders):
        leads.setdefault(key, []).append(place)
    groups = [(labels[key], places) for key, places in sorted(leads.items(), key=lambda one: -len(one[1]))]
    looks = [(colour, marker) for colour, marker, _ in style.SERIES]
    if len(groups) > len(looks):
        few = len(looks) - 1
        rest = [place for _, places in groups[few:] for place in places]
        groups = [*groups[:few], (f"{len(groups) - few} others", rest)]
        looks[few] = ("#888888", ".")
    for (_, places), (colour, marker) in zip(groups, looks, strict=False):
        at = [place + 1 for place in places]
        axes.scatter(at, [shares[place] for place in places], s=26, color=colour, marker=marker, zorder=3)
    axes.set(title=f"drift {result.drift:.2f}", xlabel="window", ylabel="share of its hottest key")
    axes.set_ylim(0, 1.1 * max(shares, default=1))
    numbered = [str(place) for place in range(len(groups))]
    if groups:
        look = {"loc": "center left", "bbox_to_anchor": (1, 0.5), "frameon": False, "fontsize": 8}
        legend = axes.legend(axes.collections, numbered, title="leads", title_fontsize=8, handletextpad=0.2, **look)
        for text, (label, _) in zip(legend.get_texts(), groups, strict=True):
            text.set_parse_math(False)  # and set afterwards: matplotlib would obey a '$' or '_' in a name
            text.set_text(label if len(label) <= 18 else label[:17] + "…")
