"""The command classes: how commands and options are listed in --help."""

from typing import Any

from typer.core import TyperCommand, TyperGroup

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
