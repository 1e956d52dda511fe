"""`keyspread doctor`: is everything here that keyspread needs, and if not, what to do."""

import json
from dataclasses import asdict
from typing import Annotated

import typer


def doctor(
    quick: Annotated[bool, typer.Option("--quick", help="Look only, do not start Spark.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check this machine: packages, Java, Spark; say how to mend what is missing.

    Exit code 0 if all that is needed is here, else 1.
    """
    from keyspread.cli.installation import checks
    from keyspread.cli.screens import layout

    found = checks(start_spark=not quick)
    well = all(check.ok for check in found if check.needed)
    if as_json:
        print(json.dumps({"ok": well, "checks": [asdict(check) for check in found]}))
    else:
        out = layout.console()
        rows = [(check.ok, check.needed, check.name, check.detail, check.remedy) for check in found]
        out.print(layout.verdicts(rows, out))
        out.print()
        missing = sum(check.needed and not check.ok for check in found)
        good = "All that is needed is here. See it work: keyspread run"
        out.print(f"{missing} to mend: see above" if missing else good)
    if not well:
        raise typer.Exit(1)
