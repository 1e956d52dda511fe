"""Parsers of option values: each returns the value or raises one clear reason why it cannot."""

from decimal import Decimal, InvalidOperation
from typing import Any

import typer


def number(text: str | float) -> float:
    """Parse any number, also written as 1e-4; the library checks whether it makes sense."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"must be a number, got {text!r}") from None


def count(text: str | int) -> int:
    """Parse a whole number, also written as 1e6, 2.5e3 or 1_000_000."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("NaN")
    # Check the exponent before int() writes the number out: 1e999999999 would take all memory.
    if not value.is_finite() or value.adjusted() > 18 or value != value.to_integral_value():
        raise typer.BadParameter(f"must be a whole number such as 1000000 or 1e6, got {text!r}")
    return int(value)


def count_or_auto(text: str | int) -> int | str:
    """Parse a whole number, or the word auto."""
    if isinstance(text, str) and text.strip().lower() == "auto":
        return "auto"
    try:
        return count(text)
    except typer.BadParameter:
        raise typer.BadParameter(f"must be a whole number of messages such as 1e5, or auto, got {text!r}") from None


# Keyword arguments of `typer.Option` for the kinds of values that many options take.
COUNT: dict[str, Any] = {"parser": count, "metavar": "COUNT"}
NUMBER: dict[str, Any] = {"parser": number, "metavar": "NUMBER"}
COUNT_OR_AUTO: dict[str, Any] = {"parser": count_or_auto, "metavar": "COUNT|auto"}
FILE: dict[str, Any] = {"metavar": "FILE"}
PATH: dict[str, Any] = {"metavar": "PATH"}
NAME: dict[str, Any] = {"metavar": "NAME"}
