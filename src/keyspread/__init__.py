"""Keyed data streams that stay balanced when a few keys are hot.

The path of a message: hash_keys -> Sender (heavy hitters -> head or tail -> choices -> least loaded) -> worker.
Importing keyspread imports no engine. `keyspread.spark` moves rows on Spark.
"""

from keyspread.choices import find_choices
from keyspread.errors import InputError, KeyspreadError
from keyspread.evaluation.compare import compare
from keyspread.evaluation.simulate import simulate
from keyspread.hashing import hash_keys
from keyspread.heavy_hitters import SpaceSaving
from keyspread.online.sender import Sender
from keyspread.online.settings import Settings
from keyspread.operators import ColumnOperator, Operator
from keyspread.planned.plan import Plan
from keyspread.planned.planner import plan
from keyspread.schemes import SCHEMES

__version__ = "0.1.0"

__all__ = [
    "SCHEMES",
    "ColumnOperator",
    "InputError",
    "KeyspreadError",
    "Operator",
    "Plan",
    "Sender",
    "Settings",
    "SpaceSaving",
    "compare",
    "find_choices",
    "hash_keys",
    "plan",
    "simulate",
]


def __dir__() -> list[str]:
    """List the public names only."""
    return [*__all__, "__version__"]
