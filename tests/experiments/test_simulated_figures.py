"""Simulated figures at a tiny scale: each has a table, a picture and verdicts, and the verdicts can fail."""

from dataclasses import replace

import pandas as pd
import pytest

from keyspread import InputError
from keyspread.evaluation.result_store import Results
from keyspread.experiments.figure_result import FigureResult
from keyspread.experiments.figures.points import ends, over_seeds
from keyspread.experiments.reproduce import FIGURES, find_figures, reproduce, runs_of
from keyspread.experiments.scale import SCALES, Scale, find_scale
from keyspread.experiments.verdict import Outcome
from keyspread.streams import FileStream, ZipfStream

TINY = Scale("tiny", 20_000, (1.2, 2.0), (0,), wikipedia=0.001, twitter=0.00002, cashtags=0.04)
SIMULATED = ["1", "7", "8", "9", "10", "11", "12", "estimate"]


@pytest.fixture(scope="module")
def rows():
    """Simulate all runs in this process; the tests of the sweep cover Spark."""
    tables, streams = [], {}
    for run in runs_of([FIGURES[name] for name in SIMULATED], TINY):
        name = repr(run.stream)
        if name not in streams:
            streams[name] = run.stream.encoded()
        tables.append(run.result(streams[name]).to_pandas())
    return pd.concat(tables, ignore_index=True)


@pytest.fixture(scope="module")
def made(rows):
    return {name: FigureResult.of(FIGURES[name], TINY, rows) for name in SIMULATED}


@pytest.mark.parametrize("name", SIMULATED)
def test_each_has_a_table_a_picture_and_verdicts(made, name):
    one = made[name]
    assert len(one.table)
    assert one.picture is not None
    assert one.verdicts
    assert one.runs == len(one.figure.runs(TINY))
    for verdict in one.verdicts:
        assert any(letter.isdigit() for letter in verdict.measured), "a verdict without a number of ours"
        assert (verdict.why == "") == (verdict.outcome is Outcome.HOLDS), verdict


# Changes that make a claim fail: (figure, rows to change, columns, new value, beginning of the claim)
DOCTORED = [
    ("1", "scheme == 'w-choices'", ["I"], 0.02, "D-C and W-C stay below"),
    ("1", "scheme == 'partial-key' and workers == 100", ["I"], 0.0001, "PKG fails with 20"),
    ("1", "scheme == 'partial-key' and workers == 5", ["I"], 0.01, "PKG balances 5 and 10"),
    ("7", "scheme == 'w-choices'", ["I"], 0.1, "W-C is ideal"),
    ("7", "scheme == 'w-choices' and theta == '1/n'", ["I"], 0.1, "A threshold of 1/n is enough"),
    ("7", "scheme == 'round-robin'", ["I"], 0.0, "RR gets worse with more"),
    ("8", "scheme == 'w-choices' and worker == 0", ["head"], 0.9, "W-C: all workers"),
    ("8", "scheme == 'partial-key'", ["head", "tail"], 0.1, "PKG: the hottest key"),
    ("9", "workers > 0", ["min_d"], 2, "The d of D-C is very close to the smallest d with I(d) ≤"),
    ("9", "workers > 0", ["d"], 1, "The d of D-C is slightly above the smallest d with I(d) ≤"),
    ("10", "scheme == 'w-choices'", ["mean_I"], 0.5, "W-C keeps the imbalance low"),
    ("10", "scheme == 'w-choices'", ["mean_I"], 0.5, "W-C performs best"),
    ("10", "scheme == 'd-choices'", ["mean_I"], 0.5, "D-C and RR stay far below"),
    ("10", "keys == 10000", ["mean_I"], 0.5, "The number of keys"),
    ("10", "scheme == 'round-robin'", ["replicas"], 1, "RR needs as many replicas"),
    ("11", "scheme == 'd-choices'", ["I"], 0.05, "The imbalance of D-C is at most"),
    ("11", "scheme == 'w-choices'", ["I"], 0.5, "W-C balances better"),
    ("11", "scheme == 'partial-key'", ["I"], 0.0, "PKG is worse than"),
    ("11", "stream == 'WP'", ["I"], 0.9, "CT is the hardest"),
    ("12", "stream == 'CT'", ["window_I"], 0.0, "Drift is visible"),
    ("estimate", "sources == 5", ["error"], 0.5, "The local load of a source"),
    ("estimate", "scheme == 'w-choices'", ["uneven"], 0.5, "Balancing the local load"),
]


@pytest.mark.parametrize(("name", "which", "columns", "value", "claim"), DOCTORED)
def test_a_verdict_can_fail(made, name, which, columns, value, claim):
    table = made[name].table.copy()
    table[columns] = table[columns].astype(float)
    table.loc[table.eval(which), columns] = value
    verdict = next(verdict for verdict in FIGURES[name].verdicts(table) if verdict.claim.startswith(claim))
    assert verdict.outcome is not Outcome.HOLDS
    assert verdict.why


def test_runs_are_shared_between_figures():
    figures = find_figures(["11", "12"])
    assert len(runs_of(figures, TINY)) == len(FIGURES["11"].runs(TINY))


def test_all_streams_and_settings_of_the_paper():
    paper = SCALES["paper"]
    assert (paper.messages, len(paper.skews), paper.skews[0], paper.skews[-1]) == (10**7, 20, 0.1, 2.0)
    one_seed = FIGURES["10"].runs(find_scale("paper", 1))
    assert len(one_seed) == 20 * 4 * 3 * 4
    assert paper.wikipedia_stream(0).messages == 22_000_000


def test_with_data_figures_11_and_12_are_of_that_data(tmp_path, spark):
    path = tmp_path / "clicks.tsv"
    path.write_text("".join(f"{time}\t{'a' if time % 3 else time % 50}\n" for time in range(6000)))
    scale = find_scale("quick", 1, [FileStream(str(path), "tsv")])
    figures = find_figures(["fig11", "Figure-12"])
    made = reproduce(figures, scale, Results(tmp_path / "results"), spark)
    assert [set(one.table.stream) for one in made] == [{"clicks.tsv"}] * 2
    assert all(one.verdicts and one.picture is not None for one in made)
    assert {"I", "windowed_I"} <= set(made[0].table.columns)


@pytest.mark.parametrize("name", ["2", "15", "fig99", "table-9", ""])
def test_an_unknown_figure_is_refused(name):
    with pytest.raises(InputError, match=r"unknown figure .*; known are 1, table-1, .*12"):
        find_figures([name])


def test_an_unknown_scale_is_refused():
    with pytest.raises(InputError, match="unknown scale 'huge'; known are quick, paper"):
        find_scale("huge")
    with pytest.raises(InputError, match="seeds must be at least 1, got 0"):
        find_scale("quick", 0)


def test_over_seeds_gives_median_and_spread():
    frame = pd.DataFrame({"n": [1, 1, 1, 2], "I": [3.0, 1.0, 7.0, 4.0]})
    table = over_seeds(frame, ["n"], ["I"])
    assert table.to_dict("list") == {"n": [1, 2], "I": [3.0, 4.0], "I_low": [1.0, 4.0], "I_high": [7.0, 4.0]}


def test_ends_are_the_last_slots():
    frame = pd.DataFrame({"run": ["a", "b", "a", "b"], "slot": [2, 1, 1, 2], "I": [1, 2, 3, 4]})
    assert ends(frame)[["run", "I"]].to_numpy().tolist() == [["a", 1], ["b", 4]]


def test_a_stream_seed_goes_with_the_seed():
    runs = FIGURES["10"].runs(replace(TINY, seeds=(0, 1)))
    assert {run.seed for run in runs} == {0, 1}
    assert all(isinstance(run.stream, ZipfStream) and run.stream.seed == run.seed for run in runs)
