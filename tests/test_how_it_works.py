"""The table of `docs/how-it-works.md` names every folder and file that a reader meets, and nothing that is gone."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src" / "keyspread"
ENTRIES = {"__init__.py", "__main__.py"}


def folders_of(folder, prefix=""):
    return {f"{prefix}{path.name}/" for path in folder.iterdir() if path.is_dir() and (path / "__init__.py").exists()}


def test_the_table_of_how_it_works_is_the_tree():
    page = (ROOT / "docs" / "how-it-works.md").read_text("utf-8")
    rows = re.findall(r"^\|[^|]*\|([^|]*)\|[^|]*\|$", page, re.MULTILINE)
    after = next(number for number, where in enumerate(rows) if where.strip() == "where") + 2
    named = [name for where in rows[after:] for name in re.findall(r"`([^`]+(?:/|\.py))`", where)]
    tree = folders_of(SOURCES) | folders_of(SOURCES / "spark", "spark/")
    files = {path.name for path in SOURCES.glob("*.py")} - ENTRIES
    assert sorted(named) == sorted(tree | files)
