"""Every public function says what it takes, returns and raises, and has an example; every public class an example."""

import inspect

import pytest

import keyspread

pytest.importorskip("pyspark")

import keyspread.spark
import keyspread.spark.kafka

KAFKA = ("kafka_source", "kafka_sink", "parsed", "split")  # what the site documents
NAMES = [(module, name) for module in (keyspread, keyspread.spark) for name in module.__all__]
NAMES += [(keyspread.spark.kafka, name) for name in KAFKA]
PUBLIC = [getattr(module, name) for module, name in NAMES]
FUNCTIONS = {f"{one.__module__}.{one.__name__}": one for one in PUBLIC if inspect.isfunction(one)}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_function_is_described_completely(name):
    function = FUNCTIONS[name]
    described = inspect.getdoc(function)
    parameters = [one for one in inspect.signature(function).parameters if one not in ("config", "self")]
    missing = [one for one in parameters if f"`{one}`" not in described and f"\n    {one}: " not in described]
    missing = [one for one in missing if f"`{one}=" not in described]  # `plan=` is how some are written
    assert not missing
    assert described.split()[0].endswith(("Return", "Count", "Diagnose", "Simulate", "Route", "Plan")), (
        described.split()[0]
    )
    for section in ("\nReturns:", "\nRaises:", "\n>>> "):
        assert section in described


@pytest.mark.parametrize("one", [one for one in PUBLIC if inspect.isclass(one)], ids=lambda one: one.__name__)
def test_a_class_is_described(one):
    assert inspect.getdoc(one)
    if not issubclass(one, Exception):
        assert "\n>>> " in inspect.getdoc(one)
    for name, member in inspect.getmembers(one):
        if not name.startswith("_") and callable(member) and getattr(member, "__module__", "").startswith("keyspread"):
            assert inspect.getdoc(member), f"{one.__name__}.{name}"
