"""Figures 13 and 14 from a measurement: table, picture, and verdicts that can fail. The measurement here is made up."""

from dataclasses import replace

import pandas as pd
import pytest

from keyspread import InputError
from keyspread.deployment.measurements import Deployment, LatencyRun, ThroughputRun
from keyspread.deployment.prediction import predict
from keyspread.deployment.setup import Setup, streaming
from keyspread.experiments.measurement import SETUPS, measurement, read_measurement
from keyspread.experiments.outcome import Reproduced
from keyspread.experiments.reproduce import FIGURES, find_figures
from keyspread.experiments.scale import SCALES
from keyspread.experiments.verdict import Outcome

SETUP = Setup(skews=(1.4, 2.0), workers=20, sources=4, seconds=0.2, repetitions=1, arrivals=0.5)


def as_predicted(setup):
    """Make a measurement of an engine that does exactly what the model says."""
    predicted = [predict(setup, skew, scheme) for skew in setup.skews for scheme in setup.schemes]
    runs, latency = [], []
    for one in predicted:
        messages = setup.scaled(one.share)
        seconds = messages / one.rate
        runs.append(
            ThroughputRun(
                skew=one.skew,
                scheme=one.scheme,
                repetition=0,
                messages=messages,
                seconds=seconds,
                sending=0.0,
                working=seconds,
                merging=0.0,
                late=0.0,
                busiest=seconds,
                median_busy=0.1,
                idlest=0.1,
                longest_queue=9,
                replicas=one.replicas,
                most_replicas=1,
                state_bytes=16,
            )
        )
        for kind, scheme in (("queues", one.scheme), ("micro-batches", streaming(one.scheme))):
            latency.append(LatencyRun(kind, one.skew, scheme, 10, 1.0, 1.0, one.waiting, 1.0, 1))
    kept = [run for run in latency if run.kind == "queues" or run.skew == max(setup.skews)]
    return Deployment(setup, tuple(runs), tuple(kept), tuple(predicted), "nowhere")


@pytest.fixture(scope="module")
def measured():
    return as_predicted(SETUP)


@pytest.fixture(scope="module")
def made(measured):
    few = pytest.MonkeyPatch()
    for module in ("figure_13", "figure_14"):
        few.setattr(f"keyspread.experiments.figures.{module}.MORE_WORKERS", (40,))
    scale = replace(SCALES["quick"], deployment=measured)
    nothing = pd.DataFrame({"run": []})
    found = {name: Reproduced.of(FIGURES[name], scale, nothing) for name in ("13", "14")}
    few.undo()
    return found


@pytest.mark.parametrize("name", ["13", "14"])
def test_each_has_a_table_a_picture_and_verdicts(made, name):
    one = made[name]
    assert one.picture is not None
    assert set(one.table.workers) == {20, 40}
    for verdict in one.verdicts:
        assert any(letter.isdigit() for letter in verdict.measured)
        assert (verdict.why == "") == (verdict.outcome is Outcome.HOLDS), verdict


def test_an_engine_that_does_what_the_loads_say_keeps_the_papers_claims(made):
    """But for two, which say that little is to be gained; see docs/reproduction.md."""
    failed = [verdict.claim for one in made.values() for verdict in one.verdicts if verdict.outcome is Outcome.FAILS]
    assert [claim.split(" (")[0] for claim in failed] == [
        "And about that, not more",
        "With modest skew",
    ]


DOCTORED = [
    ("13", "scheme == 'key'", "ratio", 9.0, "KG has the lowest"),
    ("13", "scheme == 'w-choices'", "ratio", 0.0001, "D-C and W-C match"),
    ("13", "scheme == 'key' and skew == 2.0", "ratio", 9.0, "More skew makes it harder"),
    ("13", "scheme == 'd-choices'", "ratio", 0.0001, "In the best case"),
    ("13", "scheme == 'w-choices'", "replicas", 1e9, "At a fraction of SG's cost"),
    ("13", "scheme == 'planned'", "working_rate", 1.0, "Ours: the largest load"),
    ("14", "scheme == 'partial-key'", "highest_average", 99.0, "PKG has about half"),
    ("14", "scheme == 'shuffle'", "p99", 99.0, "SG's latency is up to"),
    ("14", "scheme == 'w-choices'", "p99", 99.0, "D-C and W-C have latencies"),
    ("14", "scheme == 'w-choices' and kind == 'queues'", "p99", 99.0, "In the best case"),
]


@pytest.mark.parametrize(("name", "which", "column", "value", "claim"), DOCTORED)
def test_a_verdict_can_fail(made, name, which, column, value, claim):
    table = made[name].table.copy()
    table[column] = table[column].astype(float)
    table.loc[table.eval(which), column] = value
    verdict = next(verdict for verdict in FIGURES[name].verdicts(table) if verdict.claim.startswith(claim))
    assert verdict.outcome is not Outcome.HOLDS
    assert verdict.why


def test_they_are_made_if_named_or_if_there_is_a_measurement():
    assert not any(figure.deployed for figure in find_figures([]))
    assert [figure.name for figure in find_figures(["fig-13", "14"])] == ["13", "14"]
    assert {"13", "14"} <= {figure.name for figure in find_figures([], deployed=True)}


def test_a_measurement_must_have_what_the_paper_compares(measured):
    with pytest.raises(InputError, match="figures 13 and 14 are made from a measurement"):
        measurement(SCALES["quick"])
    without = replace(measured, setup=replace(SETUP, schemes=("kg", "sg")))
    with pytest.raises(InputError, match="lacks the schemes partial-key, d-choices, w-choices"):
        measurement(replace(SCALES["quick"], deployment=without))
    with pytest.raises(InputError, match=r"lacks latency \(--arrivals\)"):
        measurement(replace(SCALES["quick"], deployment=replace(measured, latency=())))


def test_what_is_no_measurement_is_refused(tmp_path):
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(InputError, match=r"other.json: cannot be used \(is not what keyspread bench deployment"):
        read_measurement(str(tmp_path / "other.json"))


def test_both_scales_have_the_papers_deployment():
    for setup in SETUPS.values():
        assert (setup.sources, setup.workers, setup.keys, setup.skews) == (48, 80, 10_000, (1.4, 1.7, 2.0))
    assert set(SETUPS) == set(SCALES)
