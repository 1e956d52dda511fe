"""How commands take options: parsers of values, groups of options as dataclasses, and a tidy --help."""

import functools
import inspect
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import MISSING, fields, is_dataclass
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import OptionInfo

# A parser returns the value or raises one clear reason why it cannot.


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


# Option groups: a command takes a few frozen dataclasses instead of dozens of parameters.
#
# Every field of such a dataclass is one option, annotated as Typer wants it. `option_groups` shows Typer the fields as
# single parameters and calls the command with the filled dataclasses.


def option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the fields of its dataclasses as parameters, which is what Typer understands."""
    hints = get_type_hints(command, include_extras=True)
    groups = {
        name: hint for name, hint in hints.items() if name != "return" and inspect.isclass(hint) and is_dataclass(hint)
    }

    @functools.wraps(command)
    def flat(**values: Any) -> None:
        filled = {
            name: group(**{field.name: values.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**filled, **values)

    parameters = [
        parameter
        for name, given in inspect.signature(command).parameters.items()
        for parameter in (_of_group(groups[name]) if name in groups else [_parameter(name, hints[name], given.default)])
    ]
    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del flat.__wrapped__  # else the parameters of `command` are looked at
    return flat


def _of_group(group: type) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        yield _parameter(field.name, hints[field.name], default)


def _parameter(name: str, hint: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=_with_default_in_help(hint, default)
    )


def _with_default_in_help(hint: Any, default: Any) -> Any:
    """Write a default as '(default 50)' behind the help, where Typer has '[default: 50]' and '[default: (1.4)]'."""
    if get_origin(hint) is not Annotated:
        return hint
    kind, *annotations = get_args(hint)
    options = [copy(one) for one in annotations if isinstance(one, OptionInfo)]
    for option in options:
        shown = option.show_default
        if shown is True:
            shown = "" if default is None or default is False or default is inspect.Parameter.empty else str(default)
        option.show_default = False
        if shown:
            option.help = f"{option.help} (default{':' if ' ' in shown else ''} {shown})"
    others = [one for one in annotations if not isinstance(one, OptionInfo)]
    return Annotated[kind, *options, *others]


# The command classes: how commands and options are listed in --help.


_HELP_PANEL = "Help"


class Command(TyperCommand):
    """A command whose --help shows no types of flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, tidied for --help."""
        return _tidy(super().get_params(ctx))


class CommandGroup(TyperGroup):
    """A group of commands, listed in the order in which they were added or in that of `order`."""

    order: tuple[str, ...] = ()

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in order. Typer alone lists groups of commands after all single commands."""
        names = super().list_commands(ctx)
        return sorted(names, key=lambda name: self.order.index(name) if name in self.order else len(self.order))

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, tidied for --help."""
        return _tidy(super().get_params(ctx))


def _tidy(parameters: list[Any]) -> list[Any]:
    """Change what --help shows: no `<bool>` or `<list[str]>`, no full stop, --help itself in the last panel."""
    panels = any(getattr(parameter, "rich_help_panel", None) for parameter in parameters)
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""  # Typer shows the type of every option that has no metavar
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = lambda ctx: None  # and the type of every argument
        if getattr(parameter, "help", None):
            parameter.help = parameter.help.removesuffix(".")
        if parameter.name == "help" and panels:
            parameter.rich_help_panel = _HELP_PANEL
    return parameters
