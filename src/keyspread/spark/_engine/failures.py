"""Errors of Spark in one line: the reason, without stack traces."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from keyspread.errors import InputError, KeyspreadError
from keyspread.spark._engine.capabilities import condition_of

_LONGEST = 300
_ERROR_LINE = re.compile(r"^(?:Caused by: )?([\w.$]*(?:Error|Exception)): +(\S.*)$")
_UNREADABLE = re.compile(r"while reading file (?:file:(?://)?)?(\S+?)\.?\s")


class SparkError(KeyspreadError):
    """Spark failed; the message is its reason."""


@contextmanager
def in_one_line() -> Iterator[None]:
    """Turn errors of Spark into one line; other errors pass through."""
    try:
        yield
    except (PySparkException, Py4JError) as problem:
        raise one_line_error(problem) from problem


def one_line_error(problem: BaseException) -> KeyspreadError:
    """Return the error to show: an InputError if a query or a path is wrong, otherwise a SparkError."""
    condition = condition_of(problem) if isinstance(problem, PySparkException) else None
    kind = InputError if type(problem).__name__ in ("AnalysisException", "ParseException") else SparkError
    reason = why(str(problem))
    if condition == "PATH_NOT_FOUND":
        return InputError(f"{reason.rstrip('.')}: check the path")
    unreadable = _UNREADABLE.search(str(problem))
    if unreadable:
        return InputError(f"{unreadable[1]}: cannot be read ({reason}): check that it is complete and of this format")
    return kind(reason if kind is InputError else f"Spark failed: {reason}")


def why(text: str) -> str:
    """Return the innermost reason in a message of Spark, a stack trace or a Python traceback."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return "Spark gave no reason"
    found = [match for match in map(_ERROR_LINE.match, lines) if match]
    caused = [match for match, line in ((m, m.string) for m in found) if line.startswith("Caused by: ")]
    if caused:
        reason = _named(caused[-1])
    elif "most recent failure" in lines[0]:
        # 'Job aborted …, most recent failure: Lost task 0.0 in stage 1.0 (TID 1) (host executor driver): reason'
        reason = lines[0].split("): ", 1)[-1]
    elif "Traceback (most recent call last)" in text and found:
        reason = _named(found[-1])
    else:
        reason = lines[0]
    reason = re.sub(r"^\[[A-Z_.0-9]+\] ", "", reason)
    reason = re.split(r" SQLSTATE: \w+", reason)[0]
    return reason if len(reason) <= _LONGEST else reason[: _LONGEST - 1] + "…"


def _named(match: re.Match[str]) -> str:
    """Shorten 'java.util.zip.ZipException: bad' to 'ZipException: bad'; omit the name of our own errors."""
    name = match[1].rpartition(".")[2]
    return match[2] if match[1].startswith("keyspread") else f"{name}: {match[2]}"
