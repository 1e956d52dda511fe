"""Keyed data streams that stay balanced when a few keys are hot.

The path of a message: hash_keys -> Sender (heavy hitters -> head or tail -> choices -> least loaded) -> worker.
Importing keyspread imports no engine. `keyspread.spark` moves rows on Spark.

A public name is imported when it is first used. So a Python worker of Spark that needs an operator does not load the
compiler of the kernels.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "SCHEMES": "keyspread.sender.registry",
    "ColumnOperator": "keyspread.operators",
    "InputError": "keyspread.errors",
    "KeyspreadError": "keyspread.errors",
    "Operator": "keyspread.operators",
    "Plan": "keyspread.planned.plan",
    "Sender": "keyspread.sender.sender",
    "Settings": "keyspread.sender.settings",
    "SpaceSaving": "keyspread.heavy_hitters",
    "compare": "keyspread.evaluation.compare",
    "find_choices": "keyspread.choices",
    "hash_keys": "keyspread.hashing",
    "plan": "keyspread.planned.planner",
    "simulate": "keyspread.evaluation.simulate",
}
"""Where each public name is defined; `__init__.pyi` says the same to type checkers."""

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    """Import a public name."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    """List the public names only."""
    return [*__all__, "__version__"]
