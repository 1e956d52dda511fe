"""Write the verdicts of finished reproductions into docs/reproduction.md, and their results to docs/verdicts.json.

Nothing is computed here. Each FOLDER is the --out folder of `keyspread reproduce`; where several have the same figure,
the last one counts. With --add, the results that are published already come first.

    ./dev bench verdict_table [--add] FOLDER [FOLDER ...]
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"
BEGIN, END = "<!-- verdicts: begin -->\n", "<!-- verdicts: end -->"
_MARKS = {"holds": "✓ holds", "holds in part": "◐ holds in part", "does not hold": "✗ does not hold"}
_HEAD = (
    "| verdict | where | the paper's words | our criterion | our numbers | reason |",
    "|---|---|---|---|---|---|",
)


def verdict_table(published: Sequence[Mapping[str, Any]]) -> str:
    """Return the text: a line with the counts, the table of claims, then the checks that are not counted.

    Each part is the content of a `verdicts.json`. If several have the same figure, the last one counts, so that figures
    at the paper's sizes can replace those at small sizes; the table then says which figure has which size.
    """
    figures: dict[str, tuple[Mapping[str, Any], str]] = {}
    for part in published:
        size = str(part.get("size", "")).split(":")[0]
        seeds = len(str(part.get("seeds", "")).split(",")) if part.get("seeds") else 0
        for figure in part["figures"]:
            said = f"{size}, {seeds} seed{'' if seeds == 1 else 's'}" if figure["runs"] and size else ""
            figures[figure["name"]] = (figure, said)
    order = [name for name in _ORDER if name in figures] + [name for name in figures if name not in _ORDER]
    rows = [
        (verdict, figures[name][0]["label"], figures[name][1])
        for name in order
        for verdict in figures[name][0]["verdicts"]
    ]
    claims = [row for row in rows if not row[0]["check"]]
    checks = [row for row in rows if row[0]["check"]]
    counts = {outcome: sum(verdict["outcome"] == outcome for verdict, _, _ in claims) for outcome in _MARKS}
    lines = [
        f"**{len(claims)} claims: {counts['holds']} hold, {counts['holds in part']} hold in part, "
        f"{counts['does not hold']} do not hold.**",
        "",
        *_HEAD,
        *(_row(*row) for row in claims),
    ]
    if checks:
        lines += [
            "",
            "Not counted, because they are no claims of the paper or cannot fail:",
            "",
            "| outcome | where | checked | our numbers | why it does not count |",
            "|---|---|---|---|---|",
            *(
                f"| {_MARKS[verdict['outcome']]} | {_where(verdict, label, size)} | {_cell(verdict['claim'])} | "
                f"{_cell(verdict['measured'])} | {_cell(verdict['check'])} |"
                for verdict, label, size in checks
            ),
        ]
    return "\n".join(lines) + "\n"


_ORDER = [str(number) for number in range(1, 15)]
"""Figures come in the order of the paper; claims of the text follow."""


def _row(verdict: Mapping[str, str], label: str, size: str) -> str:
    words = f"“{verdict['words']}”" if verdict["words"] else ""
    cells = (words, verdict["claim"], verdict["measured"], verdict["why"])
    mark = _MARKS[verdict["outcome"]]
    return f"| {mark} | {_where(verdict, label, size)} | " + " | ".join(map(_cell, cells)) + " |"


def _where(verdict: Mapping[str, str], label: str, size: str) -> str:
    place = (
        label if verdict["where"].replace("Fig.", "Figure").split(",")[0] in label else f"{label}; {verdict['where']}"
    )
    return _cell(f"{place} ({size})" if size else place)


def _cell(text: str) -> str:
    """Return a text that is safe inside a cell of a Markdown table.

    >>> _cell("|K| = 10 * 2")
    '\\\\|K\\\\| = 10 \\\\* 2'
    """
    for sign in "\\|*<_":
        text = text.replace(sign, "\\" + sign)
    return " ".join(text.split())


def main() -> None:
    arguments = sys.argv[1:]
    add = "--add" in arguments
    folders = [Path(argument) for argument in arguments if argument != "--add"]
    if not folders:
        sys.exit("name the folders of finished reproductions: ./dev bench verdict_table reproduced")
    missing = [folder for folder in folders if not (folder / "verdicts.json").is_file()]
    if missing:
        sys.exit(f"{missing[0]} has no verdicts.json: name the --out folder of keyspread reproduce")
    published = json.loads((DOCS / "verdicts.json").read_text(encoding="utf-8")) if add else []
    parts = published + [json.loads((folder / "verdicts.json").read_text(encoding="utf-8")) for folder in folders]
    page = DOCS / "reproduction.md"
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    table = verdict_table(parts)
    page.write_text(before + BEGIN + "\n" + table + "\n" + END + rest.split(END)[1], encoding="utf-8")
    (DOCS / "verdicts.json").write_text(json.dumps(parts, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(table.splitlines()[0])


if __name__ == "__main__":
    main()
