"""Which files form the event log of one application: a file, a rolling folder, Databricks' layout, or many of these."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from keyspread.diagnosis.log.compression import looks_like_log
from keyspread.errors import InputError

_ROLLING_FOLDER = "eventlog_v2_"
_ROLLING_FILE = re.compile(r"events_(\d+)_(.*)")
_STATUS_FILE = "appstatus_"
_COMPACT = ".compact"
RUNNING = ".inprogress"
# Databricks writes `eventlog` and renames it to `eventlog-2024-05-01--10-00.gz` once an hour.
_DATABRICKS = re.compile(r"eventlog(?:-(\d{4}-\d\d-\d\d--\d\d-\d\d)(?:\.\w+)?)?")


@dataclass(frozen=True)
class LogFiles:
    """The files of one application, in the order in which Spark wrote them."""

    name: str
    files: tuple[Path, ...]
    running: bool = False
    notes: tuple[str, ...] = field(default=())


def find_logs(paths: Iterable[str | os.PathLike[str]]) -> list[LogFiles]:
    """Return the logs of all paths. A path that is missing, unreadable or holds no log raises an InputError."""
    logs_found: list[LogFiles] = []
    for given in paths:
        if not os.fspath(given):
            raise InputError("the path of a log is empty: name an event log of Spark")
        path = Path(given)
        try:
            logs = _logs_of(path)
        except PermissionError as error:
            raise InputError(f"no permission to read {error.filename}: run as a user who may read it") from None
        except OSError as error:
            raise InputError(f"cannot read {os.fspath(path)!r} ({error.strerror}): check the path") from None
        if not logs:
            raise InputError(f"no event log in the folder {os.fspath(path)!r}: name a log, or a folder with logs in it")
        logs_found += logs
    # A log named twice, or by a pattern that also matches its folder, is read once.
    return list({tuple(map(os.path.realpath, log.files)): log for log in reversed(logs_found)}.values())[::-1]


def _logs_of(path: Path) -> list[LogFiles]:
    if not path.exists():
        raise InputError(f"no file or folder {os.fspath(path)!r}: name an event log of Spark")
    if path.is_dir():
        return _logs_in_folder(path, depth=0, seen=set())
    if not path.is_file():
        raise InputError(f"{os.fspath(path)!r} is a pipe or a device: copy the log into a file and name that")
    return [LogFiles(path.name, (path,), path.name.endswith(RUNNING))]


def _logs_in_folder(folder: Path, depth: int, seen: set[str]) -> list[LogFiles]:
    """Return the logs in a folder and its subfolders; hidden files and checksums of Hadoop are no logs."""
    if os.path.realpath(folder) in seen:  # a link to where we are
        return []
    seen.add(os.path.realpath(folder))
    entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith((".", "_")))
    files = [entry for entry in entries if entry.is_file() and not entry.name.endswith(".crc")]
    rolling = [entry for entry in files if _ROLLING_FILE.fullmatch(entry.name)]
    hourly = [entry for entry in files if _DATABRICKS.fullmatch(entry.name)]
    logs = [*_rolling_logs(folder, rolling, files), *_hourly_log(folder, hourly)]
    logs += [
        LogFiles(entry.name, (entry,), entry.name.endswith(RUNNING))
        for entry in files
        if entry not in rolling
        and entry not in hourly
        and not entry.name.startswith(_STATUS_FILE)
        and _looks_like_log(entry)
    ]
    # Databricks nests four folders deep: <delivery>/<cluster>/eventlog/<cluster>_<address>/<session>.
    for entry in entries:
        if entry.is_dir() and depth < 6:
            logs += _logs_in_folder(entry, depth + 1, seen)
    return logs


def _hourly_log(folder: Path, hourly: list[Path]) -> list[LogFiles]:
    """Return the log of Databricks in a folder, if there is one: the file without a date is written last."""
    parts: dict[str, Path] = {}
    notes = []
    for entry in sorted(hourly, key=lambda entry: (_date(entry) is None, _date(entry) or "", not entry.suffix)):
        if (_date(entry) or "") in parts:
            notes.append(f"an hour of the log is there twice: {entry.name} is left out")
        parts.setdefault(_date(entry) or "", entry)
    return [LogFiles(folder.name or "eventlog", tuple(parts.values()), notes=tuple(notes))] if parts else []


def _rolling_logs(folder: Path, rolling: list[Path], files: list[Path]) -> list[LogFiles]:
    """Return one log per application and attempt: files by number, a compacted file in place of all before it."""
    applications: dict[str, list[tuple[int, bool, Path]]] = {}
    for entry in rolling:
        match = _ROLLING_FILE.fullmatch(entry.name)
        assert match is not None
        compact = match[2].endswith(_COMPACT)
        application = match[2].removesuffix(_COMPACT).split(".")[0]
        applications.setdefault(application, []).append((int(match[1]), compact, entry))
    status = [entry.name for entry in files if entry.name.startswith(_STATUS_FILE)]
    logs = []
    for application, numbered in applications.items():
        numbered.sort(key=lambda item: (item[0], item[1], not item[2].suffix, item[2].name))
        last_compact = max((number for number, compact, _ in numbered if compact), default=None)
        if last_compact is not None:
            numbered = [item for item in numbered if item[0] > last_compact or (item[0] == last_compact and item[1])]
        notes = []
        parts: dict[tuple[int, bool], Path] = {}
        for number, compact, entry in numbered:
            # A compressed part may have been unpacked beside itself: the one that Spark wrote is read.
            if (number, compact) in parts:
                notes.append(f"part {number} of the log is there twice: {entry.name} is left out")
            parts.setdefault((number, compact), entry)
        numbered = [(*part, entry) for part, entry in parts.items()]
        numbers = [number for number, _, _ in numbered]
        missing = sorted(set(range(numbers[0], numbers[-1] + 1)) - set(numbers))[:5] if len(numbers) < 10_000 else []
        if missing:
            notes.append(f"part {', '.join(map(str, missing))} of the log is missing: what it held is not counted")
        if numbers[0] > 1 and last_compact is None:
            notes.append(f"the log starts with part {numbers[0]}: what was before is not counted")
        if last_compact is not None:
            notes.append("Spark compacted this log: finished queries in its first part are not in it")
        running = any(name.endswith(RUNNING) and application in name for name in status)
        logs.append(LogFiles(application, tuple(entry for _, _, entry in numbered), running, tuple(notes)))
    return logs


def _date(entry: Path) -> str | None:
    match = _DATABRICKS.fullmatch(entry.name)
    return match[1] if match else None


def _looks_like_log(path: Path) -> bool:
    """Tell whether a file in a folder of logs may be one: other files in there are left out silently."""
    try:
        with path.open("rb") as file:
            return looks_like_log(file.read(32))
    except PermissionError:
        return True  # the reader notes that it cannot read this one
