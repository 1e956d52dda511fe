"""Option groups: a command takes a few frozen dataclasses instead of dozens of parameters.

Every field of such a dataclass is one option, annotated as Typer wants it. `option_groups` shows Typer the fields as
single parameters and calls the command with the filled dataclasses.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from typer.models import OptionInfo


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
