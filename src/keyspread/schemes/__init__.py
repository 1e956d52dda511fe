"""Schemes: the rules that pick the worker of a message, one short file each, and the registry of their names."""

from keyspread.schemes.registry import (
    DESCRIPTORS,
    LOOK_AHEAD,
    PLANNED,
    SCHEMES,
    Descriptor,
    Kind,
    online_scheme,
    resolve,
)
from keyspread.schemes.scheme import Scheme
from keyspread.schemes.state import State

__all__ = [
    "DESCRIPTORS",
    "LOOK_AHEAD",
    "PLANNED",
    "SCHEMES",
    "Descriptor",
    "Kind",
    "Scheme",
    "State",
    "online_scheme",
    "resolve",
]
