"""The file of a --plot option: checked before any work is done."""

import os

from keyspread.errors import InputError


def check_place(path: str) -> None:
    """Raise an error if no file can be written here."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        raise InputError(f"--plot {path} is a folder: name a file")
    if not os.path.isdir(folder):
        raise InputError(f"--plot {path} cannot be written: there is no folder {folder}, create it first")
    if not os.access(folder, os.W_OK):
        raise InputError(f"--plot {path} cannot be written: check the permissions of {folder}")
