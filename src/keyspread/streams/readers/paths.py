"""Which files or streams a path means: a file, all files of a folder, or all matches of a pattern, sorted by name."""

import glob
import os

from keyspread.errors import InputError

_HIDDEN = (".", "_")
"""Names that start like this are not data, for Spark as well: .crc, _SUCCESS, _temporary."""


def find_files(path: str | os.PathLike[str]) -> list[str]:
    """List the files that a path means, at least one.

    Files and folders whose names start with . or _ are skipped. A pattern (`*`, `?`, `[a-c]`, `**` for folders of any
    depth) finds them only if it names the . or _ itself, such as `_*`.
    """
    name = os.fspath(path)
    if os.path.exists(name):
        found = _in_folder(name) if os.path.isdir(name) else [name]
        if not found:
            raise InputError(f"{name}: no file in this folder: check the path")
        return found
    if not glob.has_magic(name):
        raise InputError(f"{name}: no such file or folder: check the path")
    matches: set[str] = set()
    for match in glob.iglob(name, recursive=True):
        if not _is_hidden(match, name):
            matches.update(_in_folder(match) if os.path.isdir(match) else [match])
    if not matches:
        raise InputError(f"{name}: no file matches this pattern: check the path")
    return sorted(matches)


def _is_hidden(match: str, pattern: str) -> bool:
    """Return whether a file or folder on the way to the match is hidden and the pattern does not name it."""
    wanted, found = pattern.split(os.sep), match.split(os.sep)
    fixed = next(place for place, part in enumerate(wanted) if glob.has_magic(part))
    return not any(part.startswith(_HIDDEN) for part in wanted[fixed:]) and any(
        part.startswith(_HIDDEN) for part in found[fixed:]
    )


def _in_folder(root: str) -> list[str]:
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(_HIDDEN)]
        found += [os.path.join(folder, name) for name in names if not name.startswith(_HIDDEN)]
    return sorted(found)


def total_bytes(path: str | os.PathLike[str]) -> int:
    """Return the total size of the files that `read_stream` reads; its `progress` ends at this number."""
    try:
        return sum(os.path.getsize(name) for name in find_files(path))
    except OSError as error:
        raise InputError(
            f"{error.filename}: cannot be read ({error.strerror}): check the file and its permissions"
        ) from error


def find_streams(path: str | os.PathLike[str]) -> list[str]:
    """List the streams that a path means: each entry of a folder is one stream, any other path is one itself."""
    name = os.fspath(path)
    if not os.path.isdir(name):
        return [name]
    entries = sorted(entry for entry in os.listdir(name) if not entry.startswith(_HIDDEN))
    if not entries:
        raise InputError(f"{name}: nothing in this folder: name a folder that holds one or more streams")
    return [os.path.join(name, entry) for entry in entries]
