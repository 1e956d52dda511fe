"""The screens of `keyspread run`: they fit the terminal, and their verdicts are honest."""

import numpy as np
import pytest

pytest.importorskip("pyspark")
pytest.importorskip("rich")

from keyspread.cli.screens.run import gain_verdict, scheme_verdict, show_gain, show_scheme
from keyspread.run.gain import Gain
from keyspread.run.pipeline import HotKey, JobResult, Outcome
from keyspread.run.sources import Source
from keyspread.run.three_ways import Work

KEYS = ["x" * 200, "", "Größe\nzwei", None, "[b]bold[/b]\x1b[31m"]
HOTTEST = tuple(HotKey({"k": key}, 4_000_000_000, 2000) for key in KEYS)


def loads(*rows, scheme="", replicas=9):
    return Outcome(scheme, np.array(rows), np.array(rows) // 2, replicas)


def gain(plain, salted, spread, work="wait:1ms", workers=4, hottest=(), **more):
    even, uneven = loads(*[25] * workers), loads(100, *[0] * (workers - 1))
    rounds = {"plain groupBy": [plain] * 2, "salting by hand": [salted] * 2, "keyspread": [spread] * 2}
    given = {"rows": 100, "timed_rows": 100, "slots": workers, "loads": {"plain groupBy": uneven, "keyspread": even}}
    given |= {"source": Source(None, ("k",), "rows.csv", {}), "workers": workers, "work": Work.of(work), "keys": 9}
    given |= {"threshold": 0.05, "hot_keys": 2, "rounds": rounds, "hottest": hottest, "way": "planned: because"}
    return Gain(**given | more)


def result(*outcomes, hottest=()):
    rows, workers = int(outcomes[0].loads.sum()), len(outcomes[0].loads)
    return JobResult(
        source=Source(None, ("k",), "rows.csv", {}),
        scheme=outcomes[0].scheme,
        workers=workers,
        threshold=0.2,
        rows=rows,
        keys=5,
        hot_keys=1,
        choices=2,
        outcomes=outcomes,
        hottest=tuple(hottest),
        plan=None,
        seconds={"comparing schemes": 1.25},
        merged=None,
    )


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("workers", [1, 4, 20, 21, 2000])
def test_any_number_of_workers_and_any_key_fit(capsys, monkeypatch, columns, workers):
    monkeypatch.setenv("COLUMNS", str(columns))
    show_gain(gain(9.0, 5.0, 3.0, workers=workers, hottest=HOTTEST, rows=10**9))
    timed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    usual = loads(*range(10**9, 10**9 + workers), scheme="key")
    show_scheme(result(loads(*[10**9] * workers, scheme="planned", replicas=10**9), usual, hottest=HOTTEST))
    routed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    many = f"{workers:,} worker{'s' if workers > 1 else ''}"
    assert timed[1] == f"1 ms of waiting per row, {many}: seconds of three ways"
    assert "100 rows (a random sample of 1,000,000,000), 9 keys, 2 of them hot" in " ".join(timed)
    assert routed[1] == f"planned, {many}: rows.csv"
    assert f"they need d = 2 of {workers:,} workers" in " ".join(routed)
    for lines in (timed, routed):
        assert max(map(len, lines)) <= columns
        assert sum(line.startswith("worker ") for line in lines) == (workers if workers <= 20 else 0)
        begin = next(place for place, line in enumerate(lines) if line.startswith("hottest keys"))
        assert [line.split()[0] for line in lines[begin + 2 : begin + 6]] == ["''", "Größe", "null", "[b]bold[/b]?[31m"]


def test_the_verdict_on_a_scheme_is_honest():
    even, uneven = loads(5, 5, 5, 5, scheme="planned"), loads(14, 2, 2, 2, scheme="key")
    usual = loads(5, 5, 5, 5, scheme="key")
    assert scheme_verdict(result(even, uneven)) == "Key grouping would have kept one worker busy 2.8 × as long."
    assert "as even here" in scheme_verdict(result(even, usual))
    assert "no other scheme can gain much" in scheme_verdict(result(usual))
    assert "2.8 × its even share: --scheme planned" in scheme_verdict(result(uneven))
    assert "There is one worker" in scheme_verdict(result(loads(5, scheme="planned"), loads(5, scheme="key")))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (gain(9, 6, 3), "keyspread is 3.0 × as fast as plain groupBy, 2.0 × as fast as salting by hand."),
        (gain(9, 3, 3), "keyspread is 3.0 × as fast as plain groupBy, as fast as salting by hand."),
        (
            gain(9, 1.5, 3),
            "keyspread is 3.0 × as fast as plain groupBy; salting by hand is 2.0 × as fast as keyspread.",
        ),
        (gain(3, 3, 3), "keyspread is not faster than plain groupBy here: there is too little work"),
        (gain(3, 3, 6), "keyspread took 2.0 × as long as plain groupBy: there is too little work"),
        (gain(3, 3, 6, work="none"), "took 2.0 × as long as plain groupBy: without work per row there is nothing"),
        (gain(3, 3, 3, work="cpu:1ms"), "the cores of this machine are busy either way"),
        (gain(3, 3, 3, loads={"plain groupBy": loads(5, 6)}), "no key is hot (the busiest worker has 1.09 × its even"),
        (gain(3, 3, 3, workers=1), "There is one worker: nothing to spread."),
    ],
)
def test_the_verdict_is_honest(found, expected):
    assert expected in gain_verdict(found)
