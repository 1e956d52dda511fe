"""Option groups: a command gets dataclasses, Typer sees their fields."""

from dataclasses import dataclass
from typing import Annotated

import pytest

pytest.importorskip("typer")

import typer
from typer.testing import CliRunner

from keyspread.cli.options.command import option_groups


@dataclass(frozen=True)
class Size:
    width: Annotated[int, typer.Option(help="Width")] = 3
    height: Annotated[int | None, typer.Option(help="Height", show_default="the width")] = None


@dataclass(frozen=True)
class Paint(Size):
    width: Annotated[int, typer.Option(help="Width")] = 7
    bright: Annotated[bool, typer.Option("--bright", help="More light")] = False


def application(seen):
    app = typer.Typer(rich_markup_mode=None)

    @app.command()
    @option_groups
    def draw(paint: Paint, title: Annotated[str, typer.Argument()] = "none") -> None:
        """Draw something."""
        seen.append((paint, title))

    return app


def test_the_command_gets_filled_dataclasses():
    seen = []
    app = application(seen)
    assert CliRunner().invoke(app, []).exit_code == 0
    assert CliRunner().invoke(app, ["--width", "5", "--height", "2", "--bright", "a title"]).exit_code == 0
    assert seen == [(Paint(7, None, False), "none"), (Paint(5, 2, True), "a title")]


def test_defaults_are_in_the_help():
    out = CliRunner().invoke(application([]), ["--help"]).output
    assert "Draw something." in out
    assert "Width (default 7)" in out
    assert "Height (default: the width)" in out
    assert "More light\n" in out
