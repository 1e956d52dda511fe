"""`diagnose_log`: event logs in, one `Diagnosis` per application out."""

import os
from collections.abc import Iterator
from functools import partial

from keyspread.diagnosis.diagnosis import Diagnosis
from keyspread.diagnosis.log.application import Application
from keyspread.diagnosis.log.compression import codec_of, foreign_codec, read_lines
from keyspread.diagnosis.log.events import EventReader
from keyspread.diagnosis.log.files import LogFiles, find_logs
from keyspread.diagnosis.stages.analysis import Analysis
from keyspread.errors import InputError


def diagnose_log(*paths: str | os.PathLike[str]) -> list[Diagnosis]:
    """Return one diagnosis per application found in the paths: files, rolling folders, folders of many logs.

    Spark is not needed. A log that is cut, damaged or still being written gives what it holds, and a note says so.
    A path that is missing, or that holds no event log at all, raises an InputError; of several logs, one that cannot
    be read gives a diagnosis with nothing but a note.
    """
    logs = find_logs(paths)
    if len(logs) == 1:
        return [diagnose_files(logs[0])]
    diagnoses: list[Diagnosis] = []
    problems: list[InputError] = []
    for log in logs:
        try:
            diagnoses.append(diagnose_files(log))
        except InputError as error:
            problems.append(error)
            diagnoses.append(Diagnosis(log.name, {"log": log.name, "tasks": 0}, (), (str(error),)))
    if len(problems) == len(diagnoses):
        raise problems[0]
    return diagnoses


def diagnose_files(log: LogFiles, since: int = 0) -> Diagnosis:
    """Return the diagnosis of one application; `since` leaves out stages that started before (ms since 1970)."""
    analysis = read_events(log, since)
    application, totals = analysis.application, analysis.totals
    findings = analysis.finish()
    start = since or application.start or totals.first_launch
    end = application.end or totals.last_finish
    return Diagnosis(
        title=application.name or application.id or application.log,
        facts={
            "log": application.log,
            "application": application.id,
            "attempt": application.attempt,
            "spark": application.version,
            "seconds": None if start is None or end is None else max(end - start, 0) / 1e3,
            "stages": totals.stages,
            "tasks": totals.tasks,
            "ended": totals.ended,
            "unfinished": totals.unfinished,
            "open_jobs": _open_jobs(application),
            "queries": len(application.queries),
            "bytes": application.bytes,
            "lost_to_skew_s": round(analysis.lost, 3),
        },
        findings=findings,
        notes=(*application.notes, *_notes(log, application, totals.tasks)),
        longest=analysis.longest,
    )


def read_events(log: LogFiles, since: int = 0) -> Analysis:
    """Read all files of a log, or raise an InputError if they hold no event."""
    application = Application(log=log.name, notes=list(log.notes))
    analysis = Analysis(application, since)
    reader = EventReader(application, analysis.query_ended)
    for path in log.files:
        try:
            reader.read(read_lines(path, partial(_note_damage, application, path.name)))
        except PermissionError:
            raise InputError(f"no permission to read {os.fspath(path)!r}: run as a user who may read it") from None
        except OSError as error:
            raise InputError(f"cannot read {os.fspath(path)!r} ({error.strerror or error}): check the file") from None
    if not any(name == "skipped" or name.startswith("SparkListener") for name in application.events):
        raise InputError(_why_not(log))
    reader.finish()
    return analysis


def _open_jobs(application: Application) -> int:
    """Return how many jobs ran when the log stopped. Their tasks may be missing: Spark writes 100 kB at a time."""
    started, ended = (application.events[f"SparkListenerJob{what}"] for what in ("Start", "End"))
    return max(started - ended, 0) if application.end is None else 0


def _notes(log: LogFiles, application: Application, tasks: int) -> Iterator[str]:
    if application.malformed:
        lines = "one line is" if application.malformed == 1 else f"{application.malformed:,} lines are"
        yield f"{lines} not a readable event and left out"
    if log.running:
        yield "this log is still being written: what is there so far was read"
    elif application.end is None:
        yield "the log ends early: the application still runs, or was killed"
    if tasks and not application.queries:
        yield "the log holds no SQL or DataFrame query: stages and times are known, key columns are not"
    if not tasks:
        yield "no task ended in this log: there is nothing to diagnose"


def _note_damage(application: Application, name: str, reason: str) -> None:
    application.notes.append(f"{name} is cut or damaged ({reason}): what is before was read")


def _why_not(log: LogFiles) -> str:
    """Return why files without a single event are no log."""
    path = log.files[0]
    with path.open("rb") as file:
        head = file.read(32)
    name = repr(os.fspath(path))
    if not head:
        return f"{name} is empty: it may be an application that has just started; name a log with events"
    foreign = foreign_codec(head)
    if foreign:
        return f"{name} is not an event log of Spark but {foreign}: decompress it first, or name another file"
    codec = codec_of(head)
    if codec:
        return f"{name} holds no readable event ({codec} data that is damaged or something else): name an event log"
    return f'{name} is not an event log of Spark: it must be lines of JSON with an "Event" each'
