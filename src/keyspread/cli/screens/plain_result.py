"""What `keyspread run --aggregate …` shows: why Spark's own groupBy is enough, and the hottest keys."""

from typing import TYPE_CHECKING

from rich.text import Text

from keyspread.cli.screens import layout
from keyspread.cli.screens.job_result import hottest_keys

if TYPE_CHECKING:
    from keyspread.job.plain_job import PlainResult


def show(result: "PlainResult", out_path: str | None) -> None:
    """Print the result for people; `out_path` is the folder that was written."""
    out = layout.console()
    out.print()
    out.print(Text.assemble(("groupBy", "bold"), f": {result.source.title}"))
    counted = f"{layout.many(result.rows, 'row')}, {layout.many(result.keys, 'key')}, {result.seconds:.1f} s"
    out.print(Text(counted, layout.QUIET_STYLE))
    if result.hottest:
        out.print()
        out.print(hottest_keys(result))
    out.print()
    out.print(Text("Plain groupBy is the right tool here, and it ran.", "bold"))
    out.print("Spark folds SQL aggregates before rows move, so a hot key does no harm.")
    if out_path:
        out.print(Text(f"{layout.many(result.keys, 'merged row')} written to {out_path}"), soft_wrap=True)
    out.print(Text("--work wait:1ms shows what a hot key does to work per row in Python.", layout.QUIET_STYLE))
    out.print()
