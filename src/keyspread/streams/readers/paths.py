"""Which files a path means: the file itself, all files of a folder, or what a pattern matches; in order of name."""

import glob
import os

from keyspread.errors import InputError

_PASSED_OVER = (".", "_")
"""Beginnings of names that Spark and others do not take for data: .crc, _SUCCESS, _temporary."""


def find_files(path: str | os.PathLike[str]) -> list[str]:
    """List the files, at least one. Those in folders that begin with . or _ are passed over, so are such folders.

    A pattern (`*`, `?`, `[a-c]`, `**` for folders of any depth) finds them if it says so itself: `_*`.
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
        if not _passed_over(match, name):
            matches.update(_in_folder(match) if os.path.isdir(match) else [match])
    if not matches:
        raise InputError(f"{name}: no file matches this pattern: check the path")
    return sorted(matches)


def _passed_over(match: str, pattern: str) -> bool:
    """Whether a name on the way to the match begins so, and the pattern did not ask for that by a name of its own."""
    asked, there = pattern.split(os.sep), match.split(os.sep)
    fixed = next(place for place, part in enumerate(asked) if glob.has_magic(part))
    return not any(part.startswith(_PASSED_OVER) for part in asked[fixed:]) and any(
        part.startswith(_PASSED_OVER) for part in there[fixed:]
    )


def _in_folder(root: str) -> list[str]:
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(_PASSED_OVER)]
        found += [os.path.join(folder, name) for name in names if not name.startswith(_PASSED_OVER)]
    return sorted(found)


def total_bytes(path: str | os.PathLike[str]) -> int:
    """Sum the sizes of the files that `read_stream` would read: what its `progress` ends at."""
    try:
        return sum(os.path.getsize(name) for name in find_files(path))
    except OSError as error:
        raise InputError(
            f"{error.filename}: cannot be read ({error.strerror}): check the file and its rights"
        ) from error
