"""The command `keyspread`: a user's mistake ends with exit code 2 and one line on stderr, never a stack trace.

`app.py` lists the commands. `commands/` has one file per command, which checks its options and calls the library,
`options/` the options that they share, `screens/` what they print for people.
"""

import io
import os
import sys
from collections.abc import Sequence
from typing import Any, cast

from keyspread.errors import KeyspreadError

BAD_INPUT = 2
INTERRUPTED = 130
PIPE_CLOSED = 1

_EXTRAS = {
    "pyspark": ("PySpark", "spark,java"),
    "pandas": ("pandas", "report"),
    "jinja2": ("jinja2", "report"),
    "markupsafe": ("jinja2", "report"),
    "matplotlib": ("matplotlib", "report"),
}
"""What a package is called, and the extra that brings it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 success, 2 bad input, 130 Ctrl-C."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal without Unicode shows question marks instead of a stack trace.
        sys.stdout.reconfigure(errors="replace")
    try:
        code = _run(sys.argv[1:] if arguments is None else list(arguments))
        if sys.stdout is not None:  # it is None if the shell has closed it (`>&-`)
            sys.stdout.flush()
        return code
    except KeyspreadError as error:
        return _fail(str(error))
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package not in _EXTRAS:
            raise
        name, extra = _EXTRAS[package]
        return _fail(f"this command needs {name}, which is not installed: pip install 'keyspread[{extra}]'")
    except MemoryError as error:
        return _fail(f"not enough memory ({error}): use fewer keys or messages")
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader is gone (`| head`). Without this, Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except ConnectionError as error:  # from py4j, of a JVM that was killed
        return _fail(f"the connection to Spark was lost ({error.strerror or error}): was it stopped, or out of memory?")
    except OSError as error:
        if error.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that flushing at exit does not fail again
        return _fail(f"the output cannot be written ({error.strerror}): free some space or write elsewhere")


def _run(arguments: list[str]) -> int:
    try:
        import typer

        from keyspread.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        return _fail(f"the command line needs {error.name}: pip install 'keyspread[cli]'")
    # Older versions of Typer raise click's exceptions, newer ones their own, with the same names.
    bases = [kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"]
    usage_error = cast(type[Exception], bases[0])
    try:
        code = app(arguments, prog_name="keyspread", standalone_mode=False)
    except typer.Abort:
        return INTERRUPTED
    except usage_error as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "keyspread"
        message = cast(Any, error).format_message().rstrip(".")
        return _fail(f"{message} (see {command} --help)")
    return code if isinstance(code, int) else 0


def _fail(message: str) -> int:
    print("keyspread: error:", " ".join(message.split()), file=sys.stderr)
    return BAD_INPUT
