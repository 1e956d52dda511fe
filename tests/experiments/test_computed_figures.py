"""Figures 3 to 6 and the tables have the known numbers, and every verdict can fail."""

import dataclasses
import math

import pandas as pd
import pytest

from keyspread.errors import InputError
from keyspread.evaluation.run import SCHEMA
from keyspread.experiments import tables
from keyspread.experiments.claims.memory import SCHEMES, ClaimMemory
from keyspread.experiments.figure_result import FigureResult
from keyspread.experiments.figures.figure_03 import Figure03
from keyspread.experiments.figures.figure_04 import Figure04
from keyspread.experiments.figures.figure_05 import Figure05
from keyspread.experiments.figures.figure_06 import Figure06
from keyspread.experiments.scale import SCALES
from keyspread.experiments.tables import Table1, Table2, Table3
from keyspread.experiments.verdict import Outcome
from keyspread.online.settings import SenderSettings
from keyspread.streams import ZipfStream

QUICK = SCALES["quick"]
NO_RESULTS = SCHEMA.empty_table().to_pandas()


@pytest.fixture(scope="module")
def made():
    figures = (Figure03(), Figure04(), Figure05(), Figure06(), Table1(), Table2(), Table3())
    return {figure.name: FigureResult.of(figure, QUICK, NO_RESULTS) for figure in figures}


def outcomes(figure, table):
    return [verdict.outcome for verdict in figure.verdicts(table)]


def at(table, **where):
    for column, value in where.items():
        table = table[table[column] == value]
    assert len(table) == 1
    return table.iloc[0]


# Figure 3


def test_the_head_of_the_exact_law(made):
    table = made["3"].table
    assert len(table) == 20 * 2 * 2
    assert table[table["workers"] == 100]["head"].max() == 51
    for workers, skew, head in [(50, 0.8, 16), (50, 1.0, 25), (50, 1.4, 23), (50, 2.0, 12)]:
        assert at(table, workers=workers, skew=skew, threshold="1/(5n)")["head"] == head
    assert at(table, workers=50, skew=1.0, threshold="2/n")["head"] == 2  # shares .102 and .051; θ = .04
    assert [verdict.outcome for verdict in made["3"].verdicts] == [Outcome.HOLDS] * 3
    assert "at most 51 of 10,000 keys (z = 1.0)" in made["3"].verdicts[1].measured


def test_a_head_that_is_too_large_fails(made):
    table = made["3"].table
    assert outcomes(Figure03(), table.assign(head=501))[:2] == [Outcome.FAILS] * 2
    assert outcomes(Figure03(), table.assign(head=101))[:2] == [Outcome.HOLDS, Outcome.FAILS]
    assert outcomes(Figure03(), table.assign(head=100))[1] == Outcome.HOLDS
    assert outcomes(Figure03(), table.assign(head=range(len(table))))[2] == Outcome.FAILS


def test_one_line_with_two_peaks_leaves_the_bump_in_part(made):
    table = made["3"].table.copy()
    table.loc[(table["workers"] == 50) & (table["threshold"] == "2/n") & (table["skew"] == 0.3), "head"] = 99
    assert outcomes(Figure03(), table)[2] == Outcome.IN_PART


# Figure 4

SPEC_CHOICES = [
    (50, 0.8, 2), (50, 1.0, 6), (50, 1.4, 22), (50, 2.0, 49),
    (100, 0.8, 4), (100, 1.0, 12), (100, 1.4, 43), (100, 2.0, 95),
]  # fmt: skip


@pytest.mark.parametrize(("workers", "skew", "choices"), SPEC_CHOICES)
def test_the_choices_of_the_exact_law(made, workers, skew, choices):
    found = at(made["4"].table, workers=workers, skew=skew)
    assert found["choices"] == choices
    assert found["share_of_workers"] == choices / workers


def test_what_figure_4_says(made):
    below, fewer, more = made["4"].verdicts
    assert (below.outcome, fewer.outcome, more.outcome) == (Outcome.HOLDS, Outcome.IN_PART, Outcome.HOLDS)
    assert "0.98 (d = 49, z = 2.0)" in below.measured
    assert "0.95 (d = 95, z = 2.0)" in below.measured
    assert "with n = 5 from z = 1.4 and with n = 10 from z = 1.6" in fewer.why


def test_choices_that_reach_n_fail(made):
    table = made["4"].table
    assert outcomes(Figure04(), table.assign(choices=table["workers"]))[:2] == [Outcome.FAILS] * 2
    assert outcomes(Figure04(), table.assign(choices=2))[:2] == [Outcome.HOLDS] * 2
    assert outcomes(Figure04(), table.assign(share_of_workers=0.5))[2] == Outcome.FAILS
    assert outcomes(Figure04(), table.assign(choices=range(len(table), 0, -1)))[2] == Outcome.FAILS


# Figure 5


@pytest.mark.parametrize(
    ("skew", "scheme", "percent"),
    [(1.0, "w-choices", 25.0), (1.0, "d-choices", 2.6), (2.0, "w-choices", 26.2), (2.0, "d-choices", 24.8)],
)
def test_replicas_more_than_pkg(made, skew, scheme, percent):
    found = at(made["5"].table, workers=100, skew=skew, scheme=scheme)
    assert math.isclose(found["difference_percent"], percent, abs_tol=0.06)


def test_what_figure_5_says(made):
    verdicts = made["5"].verdicts
    assert [verdict.outcome for verdict in verdicts] == [Outcome.HOLDS] * 7
    assert "+26.2 % (W-C, n = 100, z = 2.0)" in verdicts[0].measured
    assert "+25.0 % on the bump at z = 1.0" in verdicts[1].measured
    assert "+2.6 % against +25.0 %" in verdicts[4].measured
    assert not any(verdict.why for verdict in verdicts)


def test_each_claim_of_figure_5_can_fail(made):
    table, figure = made["5"].table, Figure05()
    much = outcomes(figure, table.assign(difference_percent=31.0))
    assert much[:6] == [Outcome.FAILS] * 5 + [Outcome.HOLDS]  # both cost the same, everywhere
    d_choices = table["scheme"] == "d-choices"
    nothing = table.assign(difference_percent=table["difference_percent"].where(~d_choices, 0.0))
    assert outcomes(figure, nothing)[5] == Outcome.IN_PART
    falling = table.assign(difference_percent=table["difference_percent"].where(~d_choices, 3 - table["skew"]))
    assert outcomes(figure, falling)[5] == Outcome.FAILS
    assert outcomes(figure, table.assign(head=1000 - 100 * table["skew"]))[6] == Outcome.FAILS


# Figure 6


def test_the_least_saving_against_shuffle_grouping(made):
    worst = made["6"].table.sort_values("difference_percent").iloc[-1]
    assert (worst["workers"], worst["skew"], worst["scheme"]) == (50, 1.9, "w-choices")
    assert round(-worst["difference_percent"], 1) == 79.6
    at_worst, more = made["6"].verdicts
    assert at_worst.outcome == Outcome.IN_PART
    assert "79.6 %" in at_worst.measured
    assert "5 of 80 settings" in at_worst.why
    assert more.outcome == Outcome.HOLDS


def test_savings_that_are_too_small_fail(made):
    table, figure = made["6"].table, Figure06()
    assert outcomes(figure, table.assign(difference_percent=-70.0)) == [Outcome.FAILS] * 2
    assert outcomes(figure, table.assign(difference_percent=-81.0 - table["workers"] / 100))[0] == Outcome.HOLDS


# Tables


def test_the_look_alikes_have_the_numbers_of_table_i(made):
    table = made["table-1"].table
    assert table["symbol"].tolist() == ["WP", "TW", "CT"] + ["ZF"] * 6
    assert set(table["how"][:3]) == {"counted"}
    assert (at(table, symbol="WP")["messages"], at(table, symbol="WP")["paper_keys"]) == (1_100_000, 145_000)
    assert [verdict.outcome for verdict in made["table-1"].verdicts] == [Outcome.HOLDS]


def test_other_numbers_are_not_those_of_table_i(made):
    table = made["table-1"].table
    assert outcomes(Table1(), table.assign(p1_percent=50.0)) == [Outcome.FAILS]
    other = table.assign(keys=table["keys"].where(table["symbol"] != "CT", 99))
    (verdict,) = Table1().verdicts(other)
    assert (verdict.outcome, verdict.why) == (Outcome.IN_PART, "The numbers of CT differ by more.")


def test_a_long_stream_is_not_drawn(monkeypatch):
    monkeypatch.setattr(tables, "CHEAP", 10**6)
    monkeypatch.setattr(ZipfStream, "encoded", lambda self: pytest.fail("drawn"))
    table = Table1().table(QUICK, NO_RESULTS)
    assert table["how"][:3].tolist() == ["expected"] * 2 + ["counted"]
    assert outcomes(Table1(), table) == [Outcome.HOLDS]


def test_the_streams_of_a_user_are_counted_and_compared_with_nothing(monkeypatch):
    monkeypatch.setattr(tables, "CHEAP", 10)
    own = dataclasses.replace(
        QUICK, data=(ZipfStream(1.0, 10, 1000, name="mine"), ZipfStream(1.0, 10, 0, name="empty"))
    )
    table = Table1().table(own, NO_RESULTS)
    assert table["stream"][:2].tolist() == ["mine", "empty"]
    assert table["how"][:2].tolist() == ["counted", "counted"]
    assert table["messages"][:2].tolist() == [1000, 0]
    assert Table1().verdicts(table) == []


def test_the_names_of_the_schemes(made):
    table = made["table-2"].table
    tracking = table[table["tracks_hot_keys"]]
    assert tracking["name"].tolist() == ["round-robin", "w-choices", "d-choices", "greedy", "planned"]
    assert at(table, name="d-choices")["alias"] == "dc"
    assert made["table-2"].verdicts == []


def test_the_defaults_are_those_of_the_paper(made):
    table = made["table-3"].table
    assert at(table, meaning="threshold, default")["ours"] == "1/(5n)"
    assert at(table, meaning="tolerance of D-Choices")["ours"] == "0.0001"
    assert at(table, meaning="counters of a sender")["ours"] == "10n"
    assert [verdict.outcome for verdict in made["table-3"].verdicts] == [Outcome.HOLDS]


def test_other_defaults_are_found_out(monkeypatch):
    monkeypatch.setattr(tables, "default_threshold", lambda workers: 1 / workers)
    (verdict,) = Table3().verdicts(Table3().table(QUICK, NO_RESULTS))
    assert verdict.outcome == Outcome.IN_PART
    assert verdict.why == "Different: threshold, default: 1/(1n) instead of 1/(5n)."


def test_thresholds_that_a_sender_refuses_are_found_out(monkeypatch):
    def refuse(scheme, workers, *, threshold=None, tolerance=1e-4):
        if threshold is not None and workers * threshold < 0.2:
            raise InputError("too low")
        return real(scheme, workers, threshold=threshold)

    real = SenderSettings.of
    monkeypatch.setattr(SenderSettings, "of", refuse)
    table = Table3().table(QUICK, NO_RESULTS)
    assert at(table, meaning="threshold, range")["ours"] == "2/n, 1/n, 1/(2n), 1/(4n)"
    assert outcomes(Table3(), table) == [Outcome.IN_PART]


def test_all_unequal_fails(made):
    table = made["table-3"].table
    assert outcomes(Table3(), table.assign(equal=pd.array([False] * len(table), "boolean"))) == [Outcome.FAILS]


# Claims of the text


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

    figure = ClaimMemory()
    assert outcomes(figure, table()) == [Outcome.HOLDS] * 2
    # 680 bytes of loads and counters at n = 10: 340 more are half as much, 341 are too many.
    assert outcomes(figure, table(working_copies=340))[0] == Outcome.HOLDS
    assert outcomes(figure, table(working_copies=341))[0] == Outcome.IN_PART
    growing = table()
    growing["heavy_hitters"] += growing["keys"]
    assert outcomes(figure, growing)[0] == Outcome.FAILS
    other = table()
    other.loc[other["scheme"] == "d-choices", "working_copies"] += 1000
    assert outcomes(figure, other)[1] == Outcome.FAILS
    assert figure.verdicts(table(working_copies=61_000))[0].measured.count("× (n = ") == 2


def test_what_cannot_fail_or_is_ours_is_not_counted(made):
    counted = {verdict.claim: verdict.is_claim for one in made.values() for verdict in one.verdicts}
    assert [claim for claim, counts in counted.items() if not counts] == [
        "The head never has more than 5n keys",
        "Our look-alikes have the messages, keys and p_1 of Table I (scaled, within 2 %)",
        "The defaults are those of the paper",
    ]


# All of them


def test_every_figure_tells_what_it_is(made):
    for name, one in made.items():
        figure = one.figure
        assert figure.name == name
        assert figure.label in {f"Figure {name}", "Table I", "Table II", "Table III"}
        assert all(len(text) > 20 for text in (figure.paper, figure.method))
        assert one.runs == 0
        assert (one.picture is None) == name.startswith("table")
        assert all(verdict.measured and verdict.where for verdict in one.verdicts)
        assert all(verdict.words for verdict in one.verdicts if verdict.is_claim)
        assert all(verdict.why for verdict in one.verdicts if verdict.outcome != Outcome.HOLDS)
