"""The registry: every name finds its scheme, and every option that a scheme lists is accepted."""

import inspect

import numpy as np
import pytest

import keyspread as ks
from keyspread.peers import PEERS
from keyspread.schemes import DESCRIPTORS, SCHEMES, Kind, resolve
from keyspread.schemes.registry import SENDER_OPTIONS

ALIASES = {
    "kg": "key",
    "sg": "shuffle",
    "pkg": "partial-key",
    "rr": "round-robin",
    "wc": "w-choices",
    "dc": "d-choices",
    "pk": "per-key",
}
STREAM = np.repeat(np.arange(10), np.arange(10, 110, 10))
VALUES = {
    "threshold": 0.1,
    "tolerance": 0.01,
    "counters": 100,
    "choices": 3,
    "half_life": 50,
    "capacities": [1, 2, 3],
    "buckets": 64,
    "most_moved": 0.5,
    "epoch": 100,
    "decay": 0.5,
    "fanout": 2,
    "hot": [9],
    "salts": 2,
}
any_scheme = pytest.mark.parametrize("scheme", DESCRIPTORS, ids=lambda scheme: scheme.name)


@any_scheme
def test_every_name_and_alias_resolves_in_any_case(scheme):
    for name in (scheme.name, *scheme.aliases):
        for spelt in (name, name.upper(), name.title()):
            assert resolve(spelt) is scheme


def test_the_aliases_are_these():
    assert {alias: scheme.name for scheme in DESCRIPTORS for alias in scheme.aliases} == ALIASES


def test_no_name_is_taken_twice():
    names = [name for scheme in DESCRIPTORS for name in (scheme.name, *scheme.aliases)]
    assert len(names) == len(set(names))


def test_the_kinds_are_these():
    assert {scheme.name: scheme.kind for scheme in DESCRIPTORS} == {
        **dict.fromkeys(("key", "shuffle", "partial-key", "round-robin", "greedy"), Kind.BASELINE),
        **dict.fromkeys(("w-choices", "d-choices", "per-key"), Kind.ONLINE),
        "look-ahead": Kind.LOOK_AHEAD,
        "planned": Kind.PLANNED,
        **dict.fromkeys(PEERS, Kind.PEER),
    }


@any_scheme
def test_a_sender_runs_exactly_the_online_schemes(scheme):
    assert scheme.is_online == (scheme.name in SCHEMES) == (scheme.kind in (Kind.ONLINE, Kind.BASELINE))
    if scheme.is_online:
        assert ks.Sender(scheme.name, 3, choices=2).scheme == scheme.name
    else:
        with pytest.raises(ks.InputError, match=f"^{scheme.name} .*: use keyspread"):
            ks.Sender(scheme.name, 3)


@pytest.mark.parametrize("name", SCHEMES)
def test_a_scheme_tracks_a_head_if_its_sender_has_heavy_hitters(name):
    sender = ks.Sender(name, 3, choices=2)
    assert resolve(name).tracks_head == (sender.heavy_hitters is not None)


@pytest.mark.parametrize("name", SCHEMES)
def test_choices_are_needed_where_the_registry_says_so(name):
    if resolve(name).needs_choices:
        with pytest.raises(ks.InputError, match="needs choices"):
            ks.Sender(name, 3)
    else:
        assert ks.Sender(name, 3).scheme == name


@any_scheme
def test_simulate_accepts_every_option_that_a_scheme_takes(scheme):
    needed = {"choices": 3} if scheme.needs_choices else {}
    for name in scheme.options:
        done = ks.simulate(STREAM, scheme.name, 3, **needed | {name: VALUES[name]})
        assert done.scheme == scheme.name


@any_scheme
def test_simulate_accepts_the_options_of_our_other_schemes_without_using_them(scheme):
    ours = {name for other in DESCRIPTORS if other.peer is None for name in other.options}
    needed = {"choices": 3} if scheme.needs_choices else {}
    others = {name: VALUES[name] for name in ours - set(scheme.options)}
    if scheme.peer is not None:
        others.pop("capacities")
    plain = ks.simulate(STREAM, scheme.name, 3, assignment=True, **needed)
    with_others = ks.simulate(STREAM, scheme.name, 3, assignment=True, **needed, **others)
    assert with_others.assignment.tolist() == plain.assignment.tolist()


@any_scheme
def test_an_unknown_option_is_named_with_those_that_the_scheme_takes(scheme):
    with pytest.raises(ks.InputError) as caught:
        ks.simulate(STREAM, scheme.name, 3, colour="red")
    assert str(caught.value) == f"unknown option 'colour'; {scheme.name} takes {', '.join(scheme.options)}"


@pytest.mark.parametrize("option", ["epoch", "fanout", "salts"])
def test_the_options_of_peers_are_unknown_to_our_schemes(option):
    with pytest.raises(ks.InputError, match=f"unknown option '{option}'; d-choices takes threshold"):
        ks.simulate(STREAM, "dc", 3, **{option: VALUES[option]})


def test_the_options_are_those_of_the_functions_that_take_them():
    def keywords(function):
        return {name for name, p in inspect.signature(function).parameters.items() if p.kind is p.KEYWORD_ONLY}

    assert set(SENDER_OPTIONS) == keywords(ks.Sender) - {"source", "seed", "capacity"}
    assert set(resolve("planned").options) == keywords(ks.plan) - {"previous", "weights"}


def test_a_descriptor_cannot_be_changed():
    with pytest.raises(AttributeError):
        resolve("dc").name = "other"
    with pytest.raises(TypeError):
        resolve("per-key").recommended["half_life"] = None
