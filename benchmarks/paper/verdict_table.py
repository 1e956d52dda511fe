"""Write the verdicts of finished reproductions into docs/reproduction.md, and their results to docs/verdicts.json.

Nothing is computed here. Each FOLDER is the --out folder of `keyspread reproduce`; where several have the same figure,
the last one counts. With --add, the results that are published already come first.

    ./dev bench verdict_table [--add] FOLDER [FOLDER ...]
"""

import json
import sys
from pathlib import Path

from keyspread.report.verdict_table import verdict_table

DOCS = Path(__file__).parents[2] / "docs"
BEGIN, END = "<!-- verdicts: begin -->\n", "<!-- verdicts: end -->"


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
