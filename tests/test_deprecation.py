"""Old names of options work as the new ones do, with a warning that points at the caller."""

import warnings

import numpy as np
import pytest

import keyspread as ks
from keyspread.evaluation.compare import compare
from keyspread.evaluation.run import Run
from keyspread.streams import ZipfStream
from keyspread.streams.encoded import Encoded

STREAM = np.arange(300) % 40
CALLS = [
    pytest.param(lambda **options: ks.Sender("d-choices", 5, **options).settings, id="Sender"),
    pytest.param(lambda **options: ks.simulate(STREAM, "d-choices", 5, **options).to_dict(), id="simulate"),
    pytest.param(lambda **options: ks.simulate(STREAM, "planned", 5, **options).to_dict(), id="simulate planned"),
    pytest.param(lambda **options: ks.simulate(STREAM, "fish", 5, **options).to_dict(), id="simulate a peer"),
    pytest.param(lambda **options: ks.replica_model([5, 2], 5, "d-choices", **options), id="replica_model"),
    pytest.param(lambda **options: compare(Encoded.of(STREAM), 5, ["w-choices"], **options)[0].replicas, id="compare"),
    pytest.param(lambda **options: Run.of(ZipfStream(1.0, 9, 50), "dc", 5, **options).id, id="Run.of"),
]


@pytest.mark.parametrize("call", CALLS)
def test_capacity_is_the_old_name_of_counters(call):
    with pytest.warns(DeprecationWarning, match="^capacity is now called counters$") as caught:
        old = call(capacity=77)
    assert {warning.filename for warning in caught} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert call(counters=77) == old


@pytest.mark.parametrize("call", CALLS)
def test_both_names_at_once_are_refused(call):
    with pytest.raises(ks.InputError, match="capacity is the old name of counters, got both: leave out capacity"):
        call(capacity=77, counters=77)


def test_the_old_name_sets_the_counters():
    with pytest.warns(DeprecationWarning, match="counters"):
        sender = ks.Sender("w-choices", 5, capacity=77)
    assert sender.settings.counters == sender.heavy_hitters.capacity == 77


def test_none_is_no_use_of_the_old_name():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ks.Sender("w-choices", 5, capacity=None).settings.counters == 50
