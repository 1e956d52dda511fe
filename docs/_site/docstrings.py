"""Docstrings are plain text with `code` in single backticks and lists; autodoc reads reStructuredText."""

import re
from typing import Any

_CODE = re.compile(r"(`[^`]+`)")


def as_restructured_text(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Write code as literals and stars as themselves, and put an empty line before a list, which markup needs."""
    result: list[str] = []
    in_example = False
    for line in lines:
        in_example = line.lstrip().startswith(">>>") or (in_example and bool(line.strip()))
        if not in_example:
            before = result[-1] if result else ""
            if line.startswith("- ") and before.strip() and not before.startswith(("- ", "  ")):
                result.append("")
            line = "".join(_part(part) for part in _CODE.split(line))
        result.append(line)
    lines[:] = result


def _part(text: str) -> str:
    if _CODE.fullmatch(text):
        return f"`{text}`\\ "  # the escaped blank ends a literal before a letter, and is not printed
    # An emphasised *word* stays, and so does a star that napoleon has escaped.
    return re.sub(r"(\*\w+\*)|(?<!\\)\*", lambda found: found[1] or "\\*", text)


def setup(app: Any) -> dict[str, bool]:
    """Connect with Sphinx."""
    app.connect("autodoc-process-docstring", as_restructured_text)
    return {"parallel_read_safe": True}
