"""What `keyspread diagnose` shows on a terminal or in a pipe."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from keyspread.cli.screens import layout

if TYPE_CHECKING:
    from keyspread.diagnosis.diagnosis import Diagnosis

_STYLES = {
    "title": "bold",
    "good": "bold green",
    "bad": "bold red",
    "quiet": layout.QUIET_STYLE,
    "code": "cyan",
    "hot": layout.HEAD_STYLE,
    "cool": layout.TAIL_STYLE,
}
_ASCII = str.maketrans("▁▂▃▄▅▆▇█▒▚·→×…─", "_.-~=+*#=%.>x.-")


def show(diagnoses: "Sequence[Diagnosis]") -> None:
    """Print the findings of every application."""
    from keyspread.diagnosis.text import separated

    out = layout.console()
    ascii_only = not layout.can_print(out, "▁█▒▚→×─")
    out.print()
    for line in separated(diagnoses, out.width if out.is_terminal else 100):
        pieces = [(piece.translate(_ASCII) if ascii_only else piece, _STYLES.get(style, "")) for piece, style in line]
        # No markup and no wrapping: text from a log may hold brackets, and code to paste must stay on one line.
        out.print(Text.assemble(*pieces), soft_wrap=True)
    out.print()
