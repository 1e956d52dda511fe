"""Which worker gets a message: one short file a scheme, and their names."""

from keyspread.errors import InputError
from keyspread.schemes.d_choices import DChoices
from keyspread.schemes.greedy import Greedy
from keyspread.schemes.key import KeyGrouping
from keyspread.schemes.partial_key import PartialKeyGrouping
from keyspread.schemes.per_key import PerKey
from keyspread.schemes.round_robin import RoundRobin
from keyspread.schemes.scheme import Scheme, State
from keyspread.schemes.shuffle import ShuffleGrouping
from keyspread.schemes.w_choices import WChoices

_ALL: tuple[Scheme, ...] = (
    KeyGrouping(),
    ShuffleGrouping(),
    PartialKeyGrouping(),
    RoundRobin(),
    WChoices(),
    DChoices(),
    PerKey(),
    Greedy(),
)
_BY_NAME = {name: scheme for scheme in _ALL for name in (scheme.name, scheme.alias)}

SCHEMES: tuple[str, ...] = tuple(scheme.name for scheme in _ALL)
"""Canonical names of what a Sender can do online. Aliases (kg sg pkg rr wc dc pk) are accepted too, in any case."""

# Not online: they look at messages before they deal them, so a Sender cannot do it.
PLANNED = "planned"  # at the whole batch (planning.py)
LOOK_AHEAD = "look-ahead"  # each sender at its own part of a batch (look_ahead.py)


def find_scheme(name: str) -> Scheme:
    """Give the online scheme of this name or alias."""
    scheme = _BY_NAME.get(name.lower()) if isinstance(name, str) else None
    if scheme is None:
        known = ", ".join(f"{s.name} ({s.alias})" if s.alias != s.name else s.name for s in _ALL)
        raise InputError(
            f"unknown scheme {name!r}; known are {known}; and where a batch is seen whole, {PLANNED} and {LOOK_AHEAD}"
        )
    return scheme


__all__ = ["LOOK_AHEAD", "PLANNED", "SCHEMES", "Scheme", "State", "find_scheme"]
