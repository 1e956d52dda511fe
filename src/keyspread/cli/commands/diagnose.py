"""`keyspread diagnose`: which stage lost time to skew, by which key, how much, and what to do."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from keyspread import checks
from keyspread.cli.common import layout
from keyspread.cli.common.layout import print_json
from keyspread.cli.options.command import COUNT, FILE, NUMBER, option_groups
from keyspread.cli.options.output import Json, Master, Verbose, output
from keyspread.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from keyspread.diagnosis import Diagnosis

_STYLES = {
    "title": "bold",
    "good": "bold green",
    "bad": "bold red",
    "quiet": layout.QUIET_STYLE,
    "code": "cyan",
    "hot": layout.HEAD_STYLE,
    "cool": layout.TAIL_STYLE,
}
_ASCII = str.maketrans("▁▂▃▄▅▆▇█▒▚·→×…─", "_.-~=+*#=%.>x.-")


def show(diagnoses: "Sequence[Diagnosis]") -> None:
    """Print the findings of every application."""
    from keyspread.diagnosis.text import separated

    out = layout.console()
    ascii_only = not layout.can_print(out, "▁█▒▚→×─")
    out.print()
    for line in separated(diagnoses, out.width if out.is_terminal else 100):
        pieces = [(piece.translate(_ASCII) if ascii_only else piece, _STYLES.get(style, "")) for piece, style in line]
        # No markup and no wrapping: text from a log may hold brackets, and code to paste must stay on one line.
        out.print(Text.assemble(*pieces), soft_wrap=True)
    out.print()


_DATA = "Data"


def _data(help: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=_DATA, show_default=False, **more)


Paths = Annotated[
    list[str],
    typer.Argument(
        help="Event logs of Spark: files, rolling folders, folders of many logs. With --key or --any: data",
        metavar="LOG...",
    ),
]
Html = Annotated[str | None, output("Write one self-contained page into this file", "--html", **FILE)]


@dataclass(frozen=True)
class DataOptions:
    """Data to count keys in. It needs Spark; a log alone does not."""

    data: Annotated[
        str | None, _data("Data or table in which to count the keys that the logs name", metavar="PATH|TABLE")
    ] = None
    key: Annotated[
        list[str] | None,
        _data("Column to count; a,b for a key of two columns; repeat it to compare several keys", metavar="COLUMN"),
    ] = None
    any: Annotated[bool, _data("Count every column: which one is skewed?", "--any")] = False
    workers: Annotated[int | None, _data("Shuffle partitions of the job (default 200)", **COUNT)] = None
    format: Annotated[str | None, _data("csv, json, parquet or tsv (default: by the name)", metavar="NAME")] = None
    sample: Annotated[float | None, _data("Share of the rows to count, such as 0.05", **NUMBER)] = None
    master: Master = None
    verbose: Verbose = False

    @property
    def counts_a_file(self) -> bool:
        """Tell whether the paths are data rather than logs."""
        return self.data is None and (bool(self.key) or self.any)


@option_groups
def diagnose(logs: Paths, data: DataOptions, html: Html = None, as_json: Json = False) -> None:
    """Say which stage of a Spark job lost time to skew, by which key, and what to do. A log needs no Spark and no Java.

    [b]keyspread diagnose application_1700000000000_0001.zstd[/b]
    [b]keyspread diagnose eventlog_v2_app/ --html page.html --data orders.parquet[/b]
    [b]keyspread diagnose orders.parquet --key customer --key region --workers 200[/b]
    """
    from keyspread.diagnosis import diagnose_log

    if data.workers is not None:
        checks.whole_number("--workers", data.workers, maximum=100_000)
    if data.key and data.any:
        raise InputError("--any counts every column: leave out --key or --any")
    if data.counts_a_file:
        if len(logs) != 1:
            raise InputError(f"--key and --any count one file, folder or table, got {len(logs)}: name one")
        _refuse_overwriting(html, logs)
        diagnoses = _count(logs[0], data, [])
    else:
        _refuse_unused(data)
        _refuse_overwriting(html, [*logs, *([data.data] if data.data else [])])
        diagnoses = diagnose_log(*logs)
        if data.data is not None:
            diagnoses = _count(data.data, data, diagnoses)
    if html is not None:
        _write_page(html, diagnoses)
    if as_json:
        print_json({"applications": [diagnosis.to_dict() for diagnosis in diagnoses], "html": html})
    else:
        show(diagnoses)
        if html is not None:
            print(f"Page written to {html}")


def _refuse_unused(data: DataOptions) -> None:
    if data.data is not None:
        if data.key or data.any:
            raise InputError("--data counts the keys that the logs name: leave out --key and --any")
        if data.workers is not None:
            raise InputError("--workers is not for --data: the logs say how many partitions there were; leave it out")
        return
    for name in ("workers", "format", "sample", "master"):
        if getattr(data, name) is not None:
            raise InputError(
                f"--{name} is for counting data: add --data PATH, or --key COLUMN to count the file itself"
            )


def _count(path: str, options: DataOptions, diagnoses: "Sequence[Diagnosis]") -> "list[Diagnosis]":
    """Return the diagnosis of data, or those of logs with the hot keys found in the data."""
    from keyspread.cli.common.session import failures_in_one_line, hold_stderr, spark_session
    from keyspread.run.sources import find_files
    from keyspread.spark._launch.master import check_master

    files = None if _is_table(path) else find_files(path, options.format)
    if options.master is not None:
        check_master(options.master)
    with hold_stderr(not options.verbose) as held, layout.steps(held.console, 2) as step:
        step("starting Spark")
        with (
            spark_session(options.master, held, options.verbose, short=True) as session,
            failures_in_one_line(options.verbose),
        ):
            from keyspread.spark.diagnose import candidate_keys, with_values

            keys = [[name.strip() for name in key.split(",")] for key in options.key or ()]
            rows = _rows(session, path, files, [name for key in keys for name in key])
            step("counting keys")
            if diagnoses:
                return with_values(diagnoses, rows, sample=options.sample)
            workers = 200 if options.workers is None else options.workers
            return [candidate_keys(rows, keys or None, workers, sample=options.sample, title=path)]


_FILES = (".csv", ".tsv", ".tab", ".txt", ".json", ".jsonl", ".ndjson", ".parquet", ".pq", ".gz")


def _is_table(path: str) -> bool:
    """Tell whether a name is that of a table: no such file, no folder in it, no ending of a file."""
    is_name = "/" not in path and "*" not in path and not path.lower().endswith(_FILES)
    return is_name and not os.path.exists(path)


def _rows(session: "SparkSession", path: str, files: Any, names: list[str]) -> "DataFrame":
    if files is None:
        from pyspark.errors import AnalysisException

        try:
            return session.table(path)
        except AnalysisException:
            raise InputError(f"there is no file and no table {path!r}: name a file, a folder or a table") from None
    from keyspread.run.sources import CSV, file_source

    if not names and files.format != "tsv":
        options = CSV if files.format == "csv" else {}
        names = session.read.format(files.format).options(**options).load(files.address).columns
    return file_source(session, files, names).rows


def _refuse_overwriting(html: str | None, given: Sequence[str]) -> None:
    """Refuse a page in the place of what is read: a log, or a file in a folder of logs that is no page itself."""
    if html is None or not os.path.isfile(html):
        return
    for path in given:
        within = os.path.isdir(path) and os.path.realpath(html).startswith(os.path.join(os.path.realpath(path), ""))
        same = os.path.exists(path) and os.path.samefile(html, path)
        if same or (within and not _is_page(html)):
            raise InputError(f"--html {html} would overwrite a file of {path}, which is read: name another file")


def _is_page(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(15).lower() == b"<!doctype html>"


def _write_page(path: str, diagnoses: "Sequence[Diagnosis]") -> None:
    from keyspread.diagnosis.page import page

    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(page(diagnoses))
    except OSError as error:
        raise InputError(f"--html {path} cannot be written ({error.strerror}): name a file elsewhere") from None
