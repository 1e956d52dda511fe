"""`keyspread doctor`: one `Check` per part that keyspread needs, with a remedy where it fails.

Spark is not imported before its own check runs.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

from keyspread.cli.common.layout import print_json
from keyspread.errors import KeyspreadError


@dataclass(frozen=True)
class Check:
    """One part. If it is not `ok`, `remedy` fixes it; if it is not `needed`, everything else works without it."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    needed: bool = True


_NEEDED = (
    # Package, oldest version, first version that does not work, remedy.
    ("pyspark", "3.5", None, "pip install -U 'keyspread[spark]'"),
    ("pandas", "1.5.3", "3", "pip install 'pandas>=1.5.3,<3'"),
    ("protobuf", "4.21", None, "pip install -U 'keyspread[spark]'"),
)
_EXTRAS = {
    "connect": ("only Spark Connect needs it", {"grpcio": "0", "grpcio-status": "0", "zstandard": "0"}),
    "cli": ("only the command line needs it", {"typer": "0.16", "rich": "14.3", "jinja2": "3.1"}),
    "report": ("only keyspread reproduce needs it", {"matplotlib": "3.8", "jinja2": "3.1", "pandas": "1.5.3"}),
    "page": ("only the live page of a stream needs it", {"starlette": "0.40", "uvicorn": "0.30", "jinja2": "3.1"}),
}


def doctor(
    quick: Annotated[bool, typer.Option("--quick", help="Do not start Spark")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a screen")] = False,
) -> None:
    """Check this machine (packages, Java, Spark) and say how to fix what is missing.

    The exit code is 0 if everything needed is there, else 1.
    """
    results = checks(start_spark=not quick)
    problems = sum(check.needed and not check.ok for check in results)
    if as_json:
        print_json({"ok": not problems, "checks": [asdict(check) for check in results]})
    else:
        _show(results, problems)
    if problems:
        raise typer.Exit(1)


def _show(results: list[Check], problems: int) -> None:
    """Print a row per check; a failed one has its remedy below."""
    from rich.table import Table
    from rich.text import Text

    from keyspread.cli.common import layout

    out = layout.console()
    good, bad, optional, do = ("✓", "✗", "–", "→") if layout.can_print(out, "✓✗–→") else ("ok", "NO", "-", "=>")
    table = Table.grid(padding=(0, 2))
    for _ in range(3):
        table.add_column(overflow="fold")  # whole, because a remedy is to be copied
    for check in results:
        failed = Text(bad, "bold red") if check.needed else Text(optional, layout.QUIET_STYLE)
        table.add_row(Text(good, "green") if check.ok else failed, Text(check.name), Text(check.detail))
        if check.remedy and not check.ok:
            table.add_row("", "", Text(f"{do} {check.remedy}", "yellow"))
    out.print(table)
    out.print()
    if problems:
        out.print(f"{layout.many(problems, 'problem')} found: follow the arrows above")
    else:
        out.print("Everything needed is installed. See it work: keyspread run")


def checks(*, start_spark: bool = False) -> list[Check]:
    """Run every check, in the order in which problems are best fixed; never raises.

    With `start_spark`, Spark starts and counts a few rows through a Python worker, which takes seconds.

    >>> [check.remedy for check in checks() if check.needed and not check.ok]
    []
    """
    return list(_run_checks(start_spark))


def _run_checks(start_spark: bool) -> Iterator[Check]:
    found = ".".join(map(str, sys.version_info[:3]))
    yield Check("python", True, f"{found}, {sys.executable}")
    for name, least in (("numpy", "1.23.5"), ("pyarrow", "14.0.1"), ("xxhash", "3.4")):
        yield _package(name, least, "pip install -U keyspread")
    yield _guarded("kernels", "pip install -U numba, or set NUMBA_CACHE_DIR to a writable folder", _kernels)
    needed = [_package(name, least, remedy, below=below) for name, least, below, remedy in _NEEDED]
    yield from needed
    java = _java_check() if needed[0].ok else _NO_SPARK
    yield java
    if start_spark and needed[0].ok and java.ok:
        yield _guarded("spark starts", "pip install -U --force-reinstall 'keyspread[spark,java]'", _spark_counts)
    yield _kafka()
    for name, (needed_by, packages) in _EXTRAS.items():
        yield _extra(name, packages, needed_by)


def _package(name: str, least: str, remedy: str, *, below: str | None = None) -> Check:
    wanted = f"{least} or newer" if below is None else f"at least {least} and below {below}"
    try:
        found = version(name)
    except PackageNotFoundError:
        return Check(name, False, f"not installed, {wanted} is needed", remedy)
    if _numbers(found) >= _numbers(least) and (below is None or _numbers(found) < _numbers(below)):
        return Check(name, True, found)
    return Check(name, False, f"{found}, but {wanted} is needed", remedy)


def _numbers(text: str) -> tuple[int, ...]:
    """'4.3.0.dev1' → (4, 3, 0)."""
    parts = text.split(".")
    numeric = next((place for place, part in enumerate(parts) if not part.isdigit()), len(parts))
    return tuple(map(int, parts[:numeric]))


def _guarded(name: str, remedy: str, check: Callable[[], str]) -> Check:
    try:
        return Check(name, True, check())
    except KeyspreadError as error:
        return Check(name, False, str(error), remedy)
    except Exception as error:  # whatever a broken installation raises is the result of the check
        first_line = (str(error).strip().splitlines() or [""])[0]
        return Check(name, False, f"{type(error).__name__}: {first_line}", remedy)


def _kernels() -> str:
    import numba
    import numpy as np

    # numba raises here if it cannot write to any folder for its cache
    @numba.njit(cache=True)
    def total(values: np.ndarray) -> int:
        result = 0
        for value in values:
            result += value
        return result

    if total(np.arange(5)) != 10:
        raise KeyspreadError("a compiled loop over 0, 1, 2, 3, 4 did not add up to 10")
    return f"numba {numba.__version__} compiles, cache in {total.stats.cache_path}"


_NO_SPARK = Check("java", False, "not checked, because pyspark is missing", "pip install -U 'keyspread[spark,java]'")


def _java_check() -> Check:
    found = _guarded("java", "pip install 'keyspread[java]'", _java)
    detail, _, remedies = found.detail.partition("; run: ")  # the remedy has its own line
    return replace(found, detail=detail, remedy=remedies.partition(", or ")[0] or found.remedy)


def _java() -> str:
    from keyspread.spark._launch.java import find_java

    java = find_java()
    return "; ".join([f"Java {java.version} from {java.source}, {java.home}", *java.passed_over])


def _spark_counts() -> str:
    from pyspark import SparkContext

    from keyspread.spark import session

    was_running = SparkContext._active_spark_context is not None
    spark = session() if was_running else session(master="local[1]")
    try:
        rows = spark.range(1000).mapInArrow(lambda batches: batches, "id long").count()
        if rows != 1000:
            raise KeyspreadError(f"Spark counted {rows} of 1000 rows")
        return f"Spark {spark.version} counted 1000 rows through a Python worker"
    finally:
        if not was_running:
            spark.stop()


def _extra(name: str, packages: dict[str, str], needed_by: str) -> Check:
    """Check that every package of an extra is there; everything else works without it."""
    found = [_package(package, least, "") for package, least in packages.items()]
    missing = [f"{check.name} {check.detail}" for check in found if not check.ok]
    if missing:
        detail = f"{'; '.join(missing)}; {needed_by}"
        return Check(name, False, detail, f"pip install -U 'keyspread[{name}]'", needed=False)
    return Check(name, True, ", ".join(f"{check.name} {check.detail}" for check in found), needed=False)


def _kafka() -> Check:
    """Check that Spark has the connector in its cache. Whether it could be downloaded is only known at the start."""
    try:
        version("pyspark")
        from keyspread.spark.kafka.connector import connector
    except (PackageNotFoundError, ImportError, KeyspreadError):
        return Check("kafka", False, "needs pyspark", "pip install 'keyspread[kafka]'", needed=False)
    _, module, number = connector().split(":")
    jar = f"{module}-{number}.jar"
    caches = [Path.home() / name / "jars" for name in (".ivy2", ".ivy2.5.2")]
    if any((cache / f"org.apache.spark_{jar}").is_file() for cache in caches):
        return Check("kafka", True, f"{jar} is in Spark's cache", needed=False)
    remedy = "without a network: --option spark.jars=… (its jar, the token provider's, kafka-clients, commons-pool2)"
    detail = f"not in Spark's cache: Spark downloads {connector()} at the first use"
    return Check("kafka", False, detail, remedy, needed=False)
