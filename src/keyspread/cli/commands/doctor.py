"""`keyspread doctor`: checks the installation and says how to fix what is missing."""

from dataclasses import asdict
from typing import Annotated

import typer

from keyspread.cli.common.layout import print_json


def doctor(
    quick: Annotated[bool, typer.Option("--quick", help="Do not start Spark")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a screen")] = False,
) -> None:
    """Check this machine (packages, Java, Spark) and say how to fix what is missing.

    The exit code is 0 if everything needed is there, else 1.
    """
    from keyspread.cli.common import layout
    from keyspread.cli.common.installation import checks

    results = checks(start_spark=not quick)
    problems = sum(check.needed and not check.ok for check in results)
    if as_json:
        print_json({"ok": not problems, "checks": [asdict(check) for check in results]})
    else:
        out = layout.console()
        rows = [(check.ok, check.needed, check.name, check.detail, check.remedy) for check in results]
        out.print(layout.verdicts(rows, out))
        out.print()
        if problems:
            out.print(f"{layout.many(problems, 'problem')} found: follow the arrows above")
        else:
            out.print("Everything needed is installed. See it work: keyspread run")
    if problems:
        raise typer.Exit(1)
