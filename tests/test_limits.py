"""Absurd sizes: each is refused in one line that names the limit, before memory is taken or time passes."""

import numpy as np
import pytest

import keyspread as ks
from keyspread.evaluation.compare import compare
from keyspread.paper.figures.figure import find_scale
from keyspread.paper.runs.run import Run
from keyspread.streams import DriftingZipfStream, ZipfStream, profile, zipf, zipf_probabilities
from keyspread.streams.encoded import Encoded

HASHES = np.arange(10_000)
WORKERS = "workers must be at most 100000, got 1000000000"
CALLS = [
    (lambda: ks.Sender("d-choices", 10**9), WORKERS),
    (lambda: ks.plan(HASHES, 10**9), WORKERS),
    (lambda: ks.simulate(HASHES, "planned", 10**9), WORKERS),
    (lambda: compare(HASHES, 10**9), WORKERS),
    (lambda: ks.find_choices([0.5, 0.1], 10**9), WORKERS),
    (lambda: Run.of(ZipfStream(1.0, 10, 10), "key", 10**9), WORKERS),
    (lambda: ks.simulate(HASHES, "key", 10, sources=10**9), "sources must be at most 10000, got 1000000000"),
    (lambda: ks.simulate(HASHES, "key", 10, windows=10**9), "windows must be at most 10000, got 1000000000"),
    (
        lambda: ks.simulate(HASHES, "key", 50_000),
        "workers × windows × sources must be at most 5,000,000, got 50,000 × 50 × 5",
    ),
    (
        lambda: ks.simulate(HASHES, "d-choices", 100, sources=500, windows=1, counters=1 << 26),
        "a simulation with 100 workers, 500 sources and 10,000 keys would take 3,125 GiB of memory, "
        "over the limit of 64 GiB: use fewer of them",
    ),
    (lambda: ks.plan(HASHES, 10, buckets=2**31), "buckets must be at most 16777216, got 2147483648"),
    (lambda: ks.SpaceSaving(2**31), "capacity must be at most 67108864, got 2147483648"),
    (lambda: zipf_probabilities(1.0, 2**31 - 1), "keys must be at most 100000000, got 2147483647"),
    (lambda: DriftingZipfStream(1.0, 10**9, 10, 5, 5), "keys must be at most 100000000, got 1000000000"),
    (lambda: zipf(1.0, 10, 2**40), "messages must be at most 100000000000, got 1099511627776"),
    (lambda: zipf(1.0, 10, 2**32), "messages must be at most 2147483647, got 4294967296"),
    (lambda: profile(Encoded.of(HASHES), windows=10**9), "windows must be at most 10000, got 1000000000"),
    (lambda: profile(Encoded.of(HASHES), top=10**9), "top must be at most 1000000, got 1000000000"),
    (lambda: find_scale("quick", 10**9), "seeds must be at most 1000, got 1000000000"),
]


@pytest.mark.parametrize(("call", "message"), CALLS)
def test_a_call(call, message):
    with pytest.raises(ks.InputError) as caught:
        call()
    assert str(caught.value) == message


COMMANDS = [
    ("simulate --messages 1e3 --threshold 1e-9", "threshold 1e-09 needs more counters than the limit of 67108864"),
    ("run --option senders=1e9", "senders must be at most 10000"),
    ("run --streaming --option rate=1e300", "rate must be at most 1000000000"),
    ("bench deployment --workers 1001", "workers must be at most 1000, got 1001"),
    ("bench deployment --milliseconds 1e300", "milliseconds must be at most 3600000"),
]


@pytest.mark.parametrize(("line", "message"), COMMANDS)
def test_a_command(line, message, capsys, tmp_path, monkeypatch):
    pytest.importorskip("typer")
    pytest.importorskip("pyspark")
    from keyspread.cli import main

    monkeypatch.chdir(tmp_path)
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"keyspread: error: {message}")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
