"""Shell completion: the protocol of bash, zsh and fish, and the values that they offer."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("typer")

ENTRY = "import sys; from keyspread.cli import main; sys.exit(main())"


def command(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-c", ENTRY, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )


def complete(line):
    """Return what bash offers at the end of this line."""
    words = line.split(" ")
    done = command(_KEYSPREAD_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1))
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("keyspread simulate --scheme d", ["d-choices"]),
        ("keyspread simulate --input clicks", []),  # bash then offers files
        ("keyspread run --format t", ["table", "tsv"]),
        ("keyspread bench deployment --schemes key,d", ["key,d-choices"]),
    ],
)
def test_bash_offers(line, offered):
    assert complete(line) == offered
