"""Runs: whatever changes the result changes the id of a run, and its rows are the numbers of `simulate`."""

import pytest

from keyspread import InputError, simulate
from keyspread.paper.runs.run import SCHEMA, Run, grid
from keyspread.streams import DriftingZipfStream, FileStream, ZipfStream, look_alike

STREAM = ZipfStream(1.4, 200, 5000, seed=3)


def test_a_grid_has_every_combination_once():
    runs = grid([STREAM], scheme=["pkg", "DC"], workers=[5, 10], seed=range(3), threshold=0.05)
    assert len({run.id for run in runs}) == len(runs) == 12
    assert {(run.scheme, run.workers, run.seed) for run in runs} == {
        (scheme, n, seed) for scheme in ("partial-key", "d-choices") for n in (5, 10) for seed in range(3)
    }
    assert {dict(run.options)["threshold"] for run in runs} == {0.05}


@pytest.mark.parametrize(
    "other",
    [
        {"scheme": "w-choices"},
        {"workers": 11},
        {"seed": 1},
        {"sources": 4},
        {"windows": 49},
        {"threshold": 0.1},
        {"half_life": 100},
        {"stream": ZipfStream(1.4, 200, 5000, seed=4)},
        {"stream": ZipfStream(1.4, 200, 5001, seed=3)},
        {"stream": DriftingZipfStream(1.4, 200, 5000, seed=3, hottest=10)},
        {"stream": look_alike("ct")},
    ],
)
def test_whatever_changes_the_result_changes_the_id(other):
    usual = {"stream": STREAM, "scheme": "d-choices", "workers": 10}
    assert Run.of(**usual).id == Run.of(**usual, sources=5, seed=0, windows=50).id
    assert Run.of(**{**usual, **other}).id != Run.of(**usual).id


@pytest.mark.parametrize("scheme", ["partial-key", "d-choices", "planned", "greedy"])
def test_rows_are_the_numbers_of_simulate(scheme):
    options = {"seed": 7, "sources": 3, "windows": 8} | ({"choices": 4} if scheme == "greedy" else {})
    run = Run.of(STREAM, scheme, 10, **options)
    table = run.result()
    done = simulate(STREAM.hashes(), scheme, 10, **options)
    assert table.schema.equals(SCHEMA)
    assert table["slot"].to_pylist() == list(range(1, 9))
    assert table["imbalance"].to_pylist() == done.imbalance_over_time.tolist()
    assert table["window_imbalance"].to_pylist() == done.window_imbalance.tolist()
    last = table.slice(7).to_pylist()[0]
    assert last["slot_end"] == last["messages"] == 5000
    assert last["loads"] == done.loads.tolist()
    assert last["choices"] == list(done.choices)
    assert (last["final_imbalance"], last["replicas"], last["keys"]) == (done.imbalance, done.replicas, done.keys)
    assert (last["skew"], last["law_keys"], last["stream_seed"]) == (1.4, 200, 3)
    assert last["fixed_choices"] == options.get("choices")


def test_a_file_that_changed_is_another_stream(tmp_path):
    path = tmp_path / "stream.tsv"
    path.write_text("1\ta\n2\tb\n3\ta\n")
    run = Run.of(FileStream(str(path)), "key", 2)
    assert run.result()["keys"][0].as_py() == 2
    path.write_text("1\ta\n2\tb\n3\tc\n4\td\n")
    assert Run.of(FileStream(str(path)), "key", 2).id != run.id


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"workers": 0}, "workers must be at least 1, got 0"),
        ({"scheme": "best"}, "unknown scheme 'best'"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"windows": 0}, "windows must be at least 1, got 0"),
        ({"threshold": 2}, "threshold is a share"),
        (
            {"speed": 9},
            "speed does not apply to d-choices, got 9; d-choices takes tolerance, threshold, counters, half_life",
        ),
        ({"scheme": "greedy"}, "needs choices"),
        ({"scheme": "key", "counters": 500}, "counters does not apply to key, got 500; key takes half_life"),
    ],
)
def test_a_wrong_setting_is_refused_before_anything_runs(wrong, message):
    with pytest.raises(InputError, match=message):
        Run.of(STREAM, **{"scheme": "dc", "workers": 10, **wrong})


def test_a_grid_needs_schemes_and_workers():
    with pytest.raises(InputError, match="a grid needs workers"):
        grid([STREAM], scheme="dc")
