"""Keyed data streams that stay balanced when a few keys are hot.

The way of a message: hash_keys -> Sender (heavy hitters -> head or tail -> choices -> least loaded) -> worker.
Importing keyspread imports no engine: `keyspread.spark` carries the rows.
"""

from keyspread.choices import expected_workers, find_choices, replica_model
from keyspread.errors import InputError, KeyspreadError, SnapshotError
from keyspread.hashing import hash_keys
from keyspread.heavy_hitters import SpaceSaving
from keyspread.operators import Operator
from keyspread.planning import plan
from keyspread.plans import HotKey, Plan
from keyspread.schemes import SCHEMES
from keyspread.sender import Sender
from keyspread.simulation import Simulation, simulate

__version__ = "0.1.0"

__all__ = [
    "SCHEMES",
    "HotKey",
    "InputError",
    "KeyspreadError",
    "Operator",
    "Plan",
    "Sender",
    "Simulation",
    "SnapshotError",
    "SpaceSaving",
    "expected_workers",
    "find_choices",
    "hash_keys",
    "plan",
    "replica_model",
    "simulate",
]
