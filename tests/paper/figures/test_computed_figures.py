"""Figures 3 to 6 and the memory of a sender have the known numbers, and every verdict can fail."""

import math

import pandas as pd
import pytest

from figure_cases import outcomes
from keyspread.paper.figures.claim_memory import SCHEMES, ClaimMemory
from keyspread.paper.figures.figure import SCALES, FigureResult, Outcome
from keyspread.paper.reproduce import FIGURES
from keyspread.paper.runs.run import SCHEMA

QUICK = SCALES["quick"]
NO_RESULTS = SCHEMA.empty_table().to_pandas()
HOLDS, IN_PART, FAILS = Outcome.HOLDS, Outcome.IN_PART, Outcome.FAILS


@pytest.fixture(scope="module")
def made():
    return {name: FigureResult.of(FIGURES[name], QUICK, NO_RESULTS) for name in ("3", "4", "5", "6")}


def at(table, **where):
    for column, value in where.items():
        table = table[table[column] == value]
    assert len(table) == 1
    return table.iloc[0]


def test_every_figure_tells_what_it_is(made):
    for name, one in made.items():
        assert one.figure.name == name
        assert one.figure.label == f"Figure {name}"
        assert all(len(text) > 20 for text in (one.figure.paper, one.figure.method))
        assert one.runs == 0
        assert all(verdict.measured and verdict.where for verdict in one.verdicts)
        assert all(verdict.words for verdict in one.verdicts if verdict.is_claim)
        assert all(verdict.why for verdict in one.verdicts if verdict.outcome != HOLDS)


def test_what_cannot_fail_or_is_ours_is_not_counted(made):
    checks = [verdict.claim for one in made.values() for verdict in one.verdicts if not verdict.is_claim]
    assert checks == ["The head never has more than 5n keys"]


# Figure 3


def test_the_head_of_the_exact_law(made):
    table = made["3"].table
    assert len(table) == 20 * 2 * 2
    assert table[table["workers"] == 100]["head"].max() == 51
    for workers, skew, head in [(50, 0.8, 16), (50, 1.0, 25), (50, 1.4, 23), (50, 2.0, 12)]:
        assert at(table, workers=workers, skew=skew, threshold="1/(5n)")["head"] == head
    assert at(table, workers=50, skew=1.0, threshold="2/n")["head"] == 2  # shares .102 and .051; θ = .04
    assert outcomes("3", table) == [HOLDS] * 3
    assert "at most 51 of 10,000 keys (z = 1.0)" in made["3"].verdicts[1].measured


# Figure 4


def test_the_choices_of_the_exact_law(made):
    spec = {(50, 0.8): 2, (50, 1.0): 6, (50, 1.4): 22, (50, 2.0): 49}
    spec |= {(100, 0.8): 4, (100, 1.0): 12, (100, 1.4): 43, (100, 2.0): 95}
    for (workers, skew), choices in spec.items():
        row = at(made["4"].table, workers=workers, skew=skew)
        assert (row["choices"], row["share_of_workers"]) == (choices, choices / workers)
    below, fewer, _ = made["4"].verdicts
    assert outcomes("4", made["4"].table) == [HOLDS, IN_PART, HOLDS]
    assert "0.98 (d = 49, z = 2.0)" in below.measured
    assert "0.95 (d = 95, z = 2.0)" in below.measured
    assert "with n = 5 from z = 1.4 and with n = 10 from z = 1.6" in fewer.why


# Figures 5 and 6


def test_replicas_more_than_pkg(made):
    table, verdicts = made["5"].table, made["5"].verdicts
    percents = {(1.0, "w-choices"): 25.0, (1.0, "d-choices"): 2.6, (2.0, "w-choices"): 26.2, (2.0, "d-choices"): 24.8}
    for (skew, scheme), percent in percents.items():
        row = at(table, workers=100, skew=skew, scheme=scheme)
        assert math.isclose(row["difference_percent"], percent, abs_tol=0.06)
    assert outcomes("5", table) == [HOLDS] * 7
    assert "+26.2 % (W-C, n = 100, z = 2.0)" in verdicts[0].measured
    assert "+25.0 % on the bump at z = 1.0" in verdicts[1].measured
    assert "+2.6 % against +25.0 %" in verdicts[4].measured


def test_each_claim_of_figure_5_can_fail(made):
    table = made["5"].table
    much = outcomes("5", table.assign(difference_percent=31.0))
    assert much[:6] == [FAILS] * 5 + [HOLDS]  # both cost the same, everywhere
    d_choices = table["scheme"] == "d-choices"
    nothing = table.assign(difference_percent=table["difference_percent"].where(~d_choices, 0.0))
    assert outcomes("5", nothing)[5] == IN_PART
    falling = table.assign(difference_percent=table["difference_percent"].where(~d_choices, 3 - table["skew"]))
    assert outcomes("5", falling)[5] == FAILS
    assert outcomes("5", table.assign(head=1000 - 100 * table["skew"]))[6] == FAILS


def test_the_least_saving_against_shuffle_grouping(made):
    table = made["6"].table
    worst = table.sort_values("difference_percent").iloc[-1]
    assert (worst["workers"], worst["skew"], worst["scheme"]) == (50, 1.9, "w-choices")
    assert round(-worst["difference_percent"], 1) == 79.6
    assert outcomes("6", table) == [IN_PART, HOLDS]
    assert "79.6 %" in made["6"].verdicts[0].measured
    assert "5 of 80 settings" in made["6"].verdicts[0].why
    assert outcomes("6", table.assign(difference_percent=-70.0)) == [FAILS] * 2
    assert outcomes("6", table.assign(difference_percent=-81.0 - table["workers"] / 100))[0] == HOLDS


# The memory of a sender


def test_what_a_sender_stores_counts_its_working_copies():
    def table(**sizes):
        rows = [
            {"scheme": scheme, "workers": n, "keys": keys, "counters": 100, "loads": 8 * n}
            | {"heavy_hitters": 600, "working_copies": 100, **sizes}
            for scheme in SCHEMES
            for n in (10, 1000)
            for keys in (10**4, 10**6)
        ]
        return pd.DataFrame(rows)

    assert outcomes("memory", table()) == [HOLDS] * 2
    # 680 bytes of loads and counters at n = 10: 340 more are half as much, 341 are too many.
    assert outcomes("memory", table(working_copies=340))[0] == HOLDS
    assert outcomes("memory", table(working_copies=341))[0] == IN_PART
    growing = table()
    growing["heavy_hitters"] += growing["keys"]
    assert outcomes("memory", growing)[0] == FAILS
    other = table()
    other.loc[other["scheme"] == "d-choices", "working_copies"] += 1000
    assert outcomes("memory", other)[1] == FAILS
    assert ClaimMemory().verdicts(table(working_copies=61_000))[0].measured.count("× (n = ") == 2
