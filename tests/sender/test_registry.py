"""The registry: every name finds its scheme, and every option that a scheme lists is accepted."""

import inspect

import numpy as np
import pytest

import keyspread as ks
from keyspread.sender.registry import DESCRIPTORS, SCHEMES, Kind, resolve

STREAM = np.repeat(np.arange(10), np.arange(10, 110, 10))
VALUES = {
    "threshold": 0.1,
    "tolerance": 0.01,
    "counters": 100,
    "choices": 3,
    "half_life": 50,
    "buckets": 64,
    "most_moved": 0.5,
}
any_scheme = pytest.mark.parametrize("scheme", DESCRIPTORS, ids=lambda scheme: scheme.name)


def needed(scheme):
    return {"choices": 3} if scheme.needs_choices else {}


@any_scheme
def test_every_name_and_alias_resolves_in_any_case(scheme):
    for name in (scheme.name, *scheme.aliases):
        for spelt in (name, name.upper(), name.title()):
            assert resolve(spelt) is scheme


@any_scheme
def test_a_sender_runs_exactly_the_online_schemes(scheme):
    assert scheme.is_online == (scheme.name in SCHEMES) == (scheme.kind in (Kind.ONLINE, Kind.BASELINE))
    if scheme.is_online:
        assert ks.Sender(scheme.name, 3, **needed(scheme)).scheme == scheme.name
    else:
        with pytest.raises(ks.InputError, match=f"^{scheme.name} .*: use keyspread"):
            ks.Sender(scheme.name, 3)


@pytest.mark.parametrize("name", SCHEMES)
def test_a_scheme_tracks_a_head_if_its_sender_has_heavy_hitters(name):
    sender = ks.Sender(name, 3, **needed(resolve(name)))
    assert resolve(name).tracks_head == (sender.heavy_hitters is not None)


@any_scheme
def test_an_option_works_where_it_applies_and_is_refused_where_it_does_not(scheme):
    """Also by a Sender. A threshold says what is reported of hot keys too, so a simulation takes it with any scheme."""
    for option, value in VALUES.items():
        options = needed(scheme) | {option: value}
        if option in scheme.options or option == "threshold":
            assert ks.simulate(STREAM, scheme.name, 3, **options).scheme == scheme.name
            continue
        message = f"{option} does not apply to {scheme.name}, got {value}; {scheme.name} takes "
        with pytest.raises(ks.InputError) as caught:
            ks.simulate(STREAM, scheme.name, 3, **options)
        assert str(caught.value) == message + ", ".join(scheme.options)
        if scheme.is_online and option in inspect.signature(ks.Sender).parameters:
            with pytest.raises(ks.InputError, match=message):
                ks.Sender(scheme.name, 3, **options)


def test_one_set_of_options_can_be_used_with_several_schemes():
    assert resolve("look-ahead").accept({"threshold": 0.1, "half_life": 9}) == {"threshold": 0.1}
    with pytest.raises(ks.InputError, match=r"^unknown option 'colour'; look-ahead takes threshold, seed$"):
        resolve("look-ahead").accept({"colour": "red"}, also=("seed",))


def test_the_options_are_those_of_the_functions_that_take_them():
    def keywords(function):
        return {name for name, p in inspect.signature(function).parameters.items() if p.kind is p.KEYWORD_ONLY}

    of_senders = {option for name in SCHEMES for option in resolve(name).options}
    assert of_senders == keywords(ks.Sender) - {"source", "seed"}
    assert set(resolve("planned").options) == keywords(ks.plan) - {"previous", "weights"}
    assert keywords(ks.simulate) >= of_senders | set(resolve("planned").options)
    assert keywords(ks.compare) >= of_senders
