"""The registry of schemes: what each one is called, what kind it is, and which options it takes.

`resolve` is the only place that turns a name into a scheme. The names of schemes and of options are listed here and in
the class of each scheme, and nowhere else.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from keyspread.errors import InputError
from keyspread.sender.peers import ALL_PEERS, Peer
from keyspread.sender.per_key import PerKey
from keyspread.sender.schemes import (
    DChoices,
    Greedy,
    KeyGrouping,
    PartialKeyGrouping,
    RoundRobin,
    Scheme,
    ShuffleGrouping,
    WChoices,
)

PLANNED = "planned"
LOOK_AHEAD = "look-ahead"


class Kind(StrEnum):
    """What a scheme must see before it routes a message, and where the scheme comes from."""

    ONLINE = "online"
    """Decides message by message; a Sender runs it."""
    BASELINE = "baseline"
    """Online too, and what the others are compared with in the paper."""
    PLANNED = PLANNED
    """Counts the whole batch before it routes the first message."""
    LOOK_AHEAD = LOOK_AHEAD
    """Each sender counts its own part of a batch before it routes the first message."""
    PEER = "peer"
    """A published alternative; it is simulated for comparison, and a Sender does not run it."""


@dataclass(frozen=True)
class Descriptor:
    """One scheme: its names, its kind and its options."""

    name: str
    """The canonical name."""
    kind: Kind
    options: tuple[str, ...]
    """The options that it takes."""
    aliases: tuple[str, ...] = ()
    tracks_head: bool = False
    """Whether it treats hot keys differently from other keys."""
    needs_choices: bool = False
    """Whether the option `choices` must be given."""
    recommended: Mapping[str, Any] = field(default_factory=dict)
    """Options to set unless there is a reason not to; a Sender does not set them by itself."""
    rule: Scheme | None = None
    """The rule that a Sender runs; None if the scheme is not online."""
    peer: type[Peer] | None = None
    """The class of a peer; None for our own schemes."""

    @property
    def is_online(self) -> bool:
        """Whether a Sender can run it: it decides message by message."""
        return self.rule is not None

    def accept(self, options: Mapping[str, Any], also: Collection[str] = ()) -> dict[str, Any]:
        """Return the options that the scheme takes; leave out those of other schemes, refuse those of none of ours.

        This is for one set of options that is used with several schemes. `also` are further names that the calling
        function takes.

        >>> resolve("look-ahead").accept({"threshold": 0.1, "half_life": 100})
        {'threshold': 0.1}
        """
        taken = {*self.options, *also}
        unknown = options.keys() - taken - _OUR_OPTIONS
        if unknown:
            raise InputError(f"unknown option {min(unknown)!r}; {self._takes(also)}")
        return {name: value for name, value in options.items() if name in taken}

    def require(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options that are given, those that are not None; refuse one that the scheme does not take.

        >>> resolve("d-choices").require({"threshold": 0.1, "choices": None})
        {'threshold': 0.1}
        """
        given = {name: value for name, value in options.items() if value is not None}
        for name in given:
            if name not in self.options:
                raise InputError(f"{name} does not apply to {self.name}, got {given[name]!r}; {self._takes()}")
        return given

    def _takes(self, also: Collection[str] = ()) -> str:
        return f"{self.name} takes {', '.join(dict.fromkeys((*self.options, *also)))}"


def _online(kind: Kind, rule: Scheme) -> Descriptor:
    return Descriptor(
        name=rule.name,
        kind=kind,
        options=rule.options,
        aliases=rule.aliases,
        tracks_head=rule.tracks_head,
        needs_choices=rule.needs_choices,
        recommended=MappingProxyType(rule.recommended),
        rule=rule,
    )


DESCRIPTORS: tuple[Descriptor, ...] = (
    _online(Kind.BASELINE, KeyGrouping()),
    _online(Kind.BASELINE, ShuffleGrouping()),
    _online(Kind.BASELINE, PartialKeyGrouping()),
    _online(Kind.BASELINE, RoundRobin()),
    _online(Kind.ONLINE, WChoices()),
    _online(Kind.ONLINE, DChoices()),
    _online(Kind.ONLINE, PerKey()),
    _online(Kind.BASELINE, Greedy()),
    Descriptor(LOOK_AHEAD, Kind.LOOK_AHEAD, ("threshold",), tracks_head=True),
    Descriptor(PLANNED, Kind.PLANNED, ("threshold", "buckets", "slack", "most_moved"), tracks_head=True),
    *(Descriptor(peer.name, Kind.PEER, ("threshold",), peer=peer) for peer in ALL_PEERS),
)
"""Every scheme, in the order of listings."""

SCHEMES: tuple[str, ...] = tuple(scheme.name for scheme in DESCRIPTORS if scheme.is_online)
"""Canonical names of the schemes that a Sender runs. Their aliases (kg sg pkg rr wc dc pk) are accepted in any case."""

_OUR_OPTIONS = frozenset(name for scheme in DESCRIPTORS if scheme.peer is None for name in scheme.options)
_BY_NAME = {name: scheme for scheme in DESCRIPTORS for name in (scheme.name, *scheme.aliases)}


def resolve(name: str) -> Descriptor:
    """Return the scheme with this name or alias, in any case.

    >>> resolve("DC").name, resolve("dc").kind.value, resolve("fish").kind.value
    ('d-choices', 'online', 'peer')
    """
    scheme = _BY_NAME.get(name.lower()) if isinstance(name, str) else None
    if scheme is None:
        ours = ", ".join(_listed(known) for known in DESCRIPTORS if known.peer is None)
        peers = ", ".join(_listed(known) for known in DESCRIPTORS if known.peer is not None)
        raise InputError(f"unknown scheme {name!r}; known are {ours}, and for comparison {peers}")
    return scheme


def _listed(scheme: Descriptor) -> str:
    return f"{scheme.name} ({', '.join(scheme.aliases)})" if scheme.aliases else scheme.name


_INSTEAD_OF_A_SENDER = {
    Kind.PLANNED: "needs the whole batch: use keyspread.plan",
    Kind.LOOK_AHEAD: "needs a sender's part of a batch: use keyspread.simulate or keyspread.spark.spread",
    Kind.PEER: "is only simulated, for comparison: use keyspread.simulate",
}


def online_scheme(name: str) -> Scheme:
    """Return the rule with this name or alias that a Sender runs; say what to use instead of one that it cannot run."""
    scheme = resolve(name)
    if scheme.rule is None:
        raise InputError(f"{scheme.name} {_INSTEAD_OF_A_SENDER[scheme.kind]}")
    return scheme.rule
