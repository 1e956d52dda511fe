"""The command classes: how an option is listed in --help, and the old option names that still work."""

from typing import Any

from typer.core import TyperCommand, TyperGroup

OLD_NAMES = {
    "senders": ("--sources", "--partitions"),
    "counters": ("--capacity",),
    "messages": ("--limit",),
    "size": ("--scale",),
    "utilization": ("--rate",),
}
"""Former names of an option, by its parameter. They work in every command that has the option; --help hides them."""

_HELP_PANEL = "Help"


class Command(TyperCommand):
    """A command that accepts old option names, and whose --help shows neither them nor the type of a flag."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, tidied for --help."""
        return _tidy(super().get_params(ctx))

    def make_parser(self, ctx: Any) -> Any:
        """Return the parser, which also knows the old names."""
        parser = super().make_parser(ctx)
        for parameter in self.get_params(ctx):
            old = [name for name in OLD_NAMES.get(parameter.name, ()) if parameter.param_type_name == "option"]
            if old:
                action = "append" if parameter.multiple else "store"
                parser.add_option(obj=parameter, opts=old, dest=parameter.name, action=action, nargs=1)
        return parser

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line, without hidden arguments."""
        pieces = [self.options_metavar] if self.options_metavar else []
        for parameter in self.get_params(ctx):
            if not getattr(parameter, "hidden", False):
                pieces += parameter.get_usage_pieces(ctx)
        return pieces


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
