"""Routing: what callers ask for is checked in one place, and an option that would do nothing is refused in one line."""

import re

import numpy as np
import pytest

pytest.importorskip("pyspark")

import keyspread as ks
from keyspread import Settings
from keyspread.errors import InputError
from keyspread.sender.registry import LOOK_AHEAD, PLANNED
from keyspread.spark import StreamWatch, Watch
from keyspread.spark._routing.options import Routing

PLAN = ks.plan(np.arange(9), 4)


def test_what_a_sender_gets():
    chosen = Settings(seed=7, counters=40, half_life=300)
    routing = Routing.of(5, "dc", PLANNED, threshold=0.1, tolerance=0.01, sender=chosen)
    assert routing.of_sender() == {
        **{"seed": 7, "counters": 40, "half_life": 300},
        **{"threshold": 0.1, "tolerance": 0.01},
    }
    settings = ks.Sender("d-choices", 5, **routing.of_sender()).settings
    assert (settings.seed, settings.counters, settings.tolerance) == (7, 40, 0.01)


def test_a_stream_watch_uses_the_threshold_with_any_scheme():
    assert Routing.of(4, "key", PLANNED, threshold=0.1, watch=StreamWatch()).threshold == 0.1
    with pytest.raises(InputError, match="threshold= has no effect with scheme key"):
        Routing.of(4, "key", PLANNED, threshold=0.1, watch=Watch())


@pytest.mark.parametrize(
    ("scheme", "options", "message"),
    [
        ("key", {"threshold": 0.1}, "threshold= has no effect with scheme key: it is for schemes that treat hot keys"),
        (
            "w-choices",
            {"tolerance": 0.1},
            "tolerance= has no effect with scheme w-choices: it is for d-choices and per",
        ),
        (
            "planned",
            {"tolerance": 0.1},
            "tolerance= has no effect with scheme planned: it is for d-choices and per-key",
        ),
        ("planned", {"sender": Settings()}, "sender= has no effect with scheme planned: it is for schemes with a Send"),
        (None, {"sender": Settings()}, "sender= has no effect with scheme look-ahead: it is for schemes with a Sender"),
        ("dc", {"plan": PLAN}, "plan= is given, so scheme='dc' has no effect; leave one of them out"),
        (None, {"plan": PLAN, "threshold": 0.1}, "plan= is given, so threshold= has no effect; leave one of them out"),
        (None, {"plan": PLAN, "weight": "bytes"}, "plan= is given, so weight= has no effect; leave one of them out"),
        (None, {"plan": 7}, "plan must be a keyspread.Plan, got 7; Plan.from_json reads a stored one"),
        (None, {"plan": PLAN.to_json()}, "plan must be a keyspread.Plan, got '{"),
        (
            None,
            {"plan": ks.plan(np.arange(9), 3)},
            "the plan is for 3 workers, not for 4; make a new one with previous=",
        ),
        ("dc", {"sender": {"seed": 7}}, "sender must be keyspread.Settings, such as Settings(seed=7), got {'seed': 7}"),
    ],
)
def test_refused_in_one_line(scheme, options, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}[^\n]*$"):
        Routing.of(4, scheme, LOOK_AHEAD, **options)


@pytest.mark.parametrize("workers", [0, -1, 1.5, "4", None, True])
def test_the_number_of_workers_is_a_whole_number_from_one_on(workers):
    with pytest.raises(InputError, match=rf"^workers must be (at least 1|a whole number), got {workers!r}$"):
        Routing.of(workers, None, PLANNED)
