"""The file of a --plot option: checked before any work is done."""

import os

from keyspread.errors import ExtraMissingError, InputError

_ENDINGS = (".svg", ".png", ".pdf")


def check_plot(path: str) -> None:
    """Raise an error if the plot cannot be drawn or written."""
    if not path.lower().endswith(_ENDINGS):
        raise InputError(f"--plot must end in {', '.join(_ENDINGS[:-1])} or {_ENDINGS[-1]}, got {path}")
    check_place(path)
    try:
        import keyspread.report.style  # noqa: F401
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "matplotlib":
            raise
        raise ExtraMissingError(
            "--plot needs matplotlib, which is not installed: pip install 'keyspread[report]'"
        ) from error


def check_place(path: str) -> None:
    """Raise an error if no file can be written here."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        raise InputError(f"--plot {path} is a folder: name a file")
    if not os.path.isdir(folder):
        raise InputError(f"--plot {path} cannot be written: there is no folder {folder}, create it first")
    if not os.access(folder, os.W_OK):
        raise InputError(f"--plot {path} cannot be written: check the permissions of {folder}")
