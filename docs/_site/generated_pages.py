"""Pages that are made from the sources: the command line from its commands, error messages from what is raised."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src" / "keyspread"
ERRORS = ("InputError", "KeyspreadError", "ExtraMissingError", "JavaMissingError", "SnapshotError", "SparkError")


def command_page() -> str:
    """Return all commands with their options, as Markdown."""
    import typer

    from keyspread.cli.app import app

    lines = [
        "# Command line",
        "",
        "`keyspread COMMAND --help` prints the same in a terminal. Numbers may be written as 1e6.",
        "",
    ]
    for path, command in _commands(typer.main.get_command(app), ["keyspread"]):
        lines += [f"## `{' '.join(path)}`", "", _prose(command.help or ""), ""]
        panels: dict[str, list[str]] = {}
        for parameter in command.params:
            if getattr(parameter, "hidden", False) or parameter.name == "help":
                continue
            panel = getattr(parameter, "rich_help_panel", None) or "Arguments"
            panels.setdefault(panel, []).append(_option(parameter))
        for panel, rows in panels.items():
            lines += [f"| {panel} | |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def _commands(command: Any, path: list[str]) -> Iterator[tuple[list[str], Any]]:
    for name, child in getattr(command, "commands", {}).items():
        if getattr(child, "hidden", False):
            continue
        if getattr(child, "commands", None):
            yield from _commands(child, [*path, name])
        else:
            yield [*path, name], child


def _option(parameter: Any) -> str:
    names = parameter.opts if parameter.param_type_name == "option" else [parameter.name.upper()]
    metavar = "" if getattr(parameter, "is_flag", False) else f" {parameter.metavar or ''}"
    if parameter.param_type_name != "option":
        names, metavar = [parameter.metavar or parameter.name.upper()], ""
    shown = ", ".join(f"`{name}{metavar}`".replace(" `", "`") for name in names)
    return f"| {_cell(shown)} | {_cell(_prose(getattr(parameter, 'help', '') or ''))} |"


def _prose(text: str) -> str:
    """Return help as Markdown: examples, which are bold in a terminal, as code."""
    paragraphs = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        examples = re.findall(r"^\s*\[b\](.+?)\[/b\]\s*$", paragraph, re.MULTILINE)
        if examples and len(examples) == len(paragraph.strip().splitlines()):
            paragraphs.append("```\n" + "\n".join(examples) + "\n```")
        else:
            plain = " ".join(paragraph.split())
            plain = re.sub(r"\[b\](.*?)\[/b\]", r"`\1`", plain).replace("<", "&lt;").replace("\\[", "[")
            paragraphs.append(plain)
    return "\n\n".join(paragraphs)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def error_page() -> str:
    """Return all messages of errors, by the folder that raises them, as Markdown."""
    lines = [
        "# Error messages",
        "",
        "Every error of keyspread is one line that names the thing, the value received and the remedy. Its class",
        "derives from `keyspread.KeyspreadError`; input errors are also `ValueError`s. The commands print the line and",
        "exit with code 2.",
        "This list is made from the sources. A name in braces stands for a value.",
        "",
    ]
    for folder, found in sorted(_messages().items()):
        lines += [f"## `{folder}`", "", *(f"- {_code(message)}" for message in sorted(found)), ""]
    return "\n".join(lines)


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _messages() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in sorted(SOURCES.rglob("*.py")):
        folder = ".".join(("keyspread", *path.relative_to(SOURCES).parts[:-1]))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                name = getattr(node.exc.func, "id", "")
                text = _template(node.exc.args[0])
                if name in ERRORS and text and len(text) > 12:
                    found.setdefault(folder, set()).add(text)
    return found


def _template(node: ast.expr) -> str | None:
    """Return the text of a literal, with the values of an f-string in braces."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return " ".join(node.value.split())
    if isinstance(node, ast.JoinedStr):
        parts = []
        for part in node.values:
            if isinstance(part, ast.Constant):
                parts.append(str(part.value))
            elif isinstance(part, ast.FormattedValue):
                value = ast.unparse(part.value)
                parts.append("{" + (value if len(value) <= 24 and "'" not in value and '"' not in value else "…") + "}")
        return " ".join("".join(parts).split())
    return None


def write(app: Any) -> None:
    """Write the pages that do not exist or have changed, before Sphinx reads its sources."""
    for name, text in (("commands.md", command_page()), ("error-messages.md", error_page())):
        path = Path(app.srcdir) / "generated" / name
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Connect with Sphinx."""
    app.connect("config-inited", lambda app, config: write(app))
    return {"parallel_read_safe": True}
