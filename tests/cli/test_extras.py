"""Without an extra, a command ends with one line that names the package and the command that installs it."""

import subprocess
import sys

import pytest

pytest.importorskip("typer")
pytest.importorskip("pyspark")

NOT_INSTALLED = "which is not installed: pip install 'keyspread"
WITHOUT = """
import sys
blocked = sys.argv.pop(1).split(",")

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
from keyspread.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("blocked", "arguments", "line"),
    [
        ("jinja2", ["reproduce", "1"], f"this command needs jinja2, {NOT_INSTALLED}[report]'"),
        ("pandas", ["reproduce", "1"], f"this command needs pandas, {NOT_INSTALLED}[report]'"),
        ("typer", ["doctor"], "the command line needs typer: pip install 'keyspread[cli]'"),
        ("rich", ["doctor"], "the command line needs rich: pip install 'keyspread[cli]'"),
    ],
)
def test_a_missing_package_is_one_line(blocked, arguments, line, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, blocked, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"keyspread: error: {line}\n"
