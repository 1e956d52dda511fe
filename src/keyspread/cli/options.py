"""Values that several commands take: each parser gives the value or one clear reason why not."""

from decimal import Decimal, InvalidOperation

import typer


def number(text: str | float) -> float:
    """Any number, also written as 1e-4; whether it makes sense is for the library to say."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"must be a number, got {text!r}") from None


def count(text: str | int) -> int:
    """Whole number, also written as 1e6, 2.5e3 or 1_000_000."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("NaN")
    # The exponent is bounded before int() writes it out: 1e999999999 would take all memory.
    if not value.is_finite() or value.adjusted() > 18 or value != value.to_integral_value():
        raise typer.BadParameter(f"must be a whole number such as 1000000 or 1e6, got {text!r}")
    return int(value)


def count_or_auto(text: str | int) -> int | str:
    """Whole number, or the word auto."""
    if isinstance(text, str) and text.strip().lower() == "auto":
        return "auto"
    try:
        return count(text)
    except typer.BadParameter:
        raise typer.BadParameter(f"must be a whole number of messages such as 1e5, or auto, got {text!r}") from None
