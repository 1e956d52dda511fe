"""The screen of `keyspread run`: it fits the terminal, and its verdict is honest."""

import numpy as np
import pytest

pytest.importorskip("pyspark")
pytest.importorskip("rich")

from keyspread.cli.screens.gain import show, verdict
from keyspread.job.gain import Gain, TimedKey, WorkerLoads
from keyspread.job.sources import Malformed, Source
from keyspread.job.work import Work


def loads(*rows):
    return WorkerLoads(np.array(rows), np.array(rows) // 2)


def gain(plain, salted, spread, work="wait:1ms", workers=4, hottest=(), **more):
    even, uneven = loads(*[25] * workers), loads(100, *[0] * (workers - 1))
    rounds = {"plain groupBy": [plain] * 2, "salting by hand": [salted] * 2, "keyspread": [spread] * 2}
    given = {"rows": 100, "timed_rows": 100, "slots": workers, "loads": {"plain groupBy": uneven, "keyspread": even}}
    given |= {"source": Source(None, ("k",), "rows.csv", {}), "workers": workers, "work": Work.of(work), "keys": 9}
    given |= {"threshold": 0.05, "hot_keys": 2, "rounds": rounds, "hottest": hottest, "way": "planned: because"}
    return Gain(**{**given, "malformed": Malformed(), "preparation": {}, **more})


def screen_of(found, capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    show(found)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, lines)) <= columns
    return lines


@pytest.mark.parametrize("columns", [80, 120, 200])
@pytest.mark.parametrize("workers", [1, 4, 20, 21, 2000])
def test_any_number_of_workers_fits(capsys, monkeypatch, columns, workers):
    keys = ["x" * 200, "", "Größe\nzwei", None, "[b]bold[/b]"]
    hottest = tuple(TimedKey(key, 4_000_000_000, 2000) for key in keys)
    found = gain(9.0, 5.0, 3.0, workers=workers, hottest=hottest, rows=10**9)
    lines = screen_of(found, capsys, monkeypatch, columns)
    assert lines[1] == f"1 ms of waiting per row, {workers:,} worker{'s' if workers > 1 else ''}: rows.csv"
    assert lines[2] == "100 rows (a random sample of 1,000,000,000), 9 keys, 2 of them hot"
    assert sum(line.startswith("worker ") for line in lines) == (workers if workers <= 20 else 0)
    begin = next(place for place, line in enumerate(lines) if line.startswith("hottest keys"))
    assert [line.split()[0] for line in lines[begin + 2 : begin + 6]] == ["''", "Größe", "null", "[b]bold[/b]"]


def test_seconds_and_gains(capsys, monkeypatch):
    lines = screen_of(gain(9.0, 4.5, 3.0), capsys, monkeypatch, 80)
    assert [line.split("█")[0].split() + line.split("█")[-1].split() for line in lines[5:8]] == [
        ["plain", "groupBy", "9.0"],
        ["salting", "by", "hand", "4.5", "2.0", "×"],
        ["keyspread", "3.0", "3.0", "×"],
    ]
    assert lines[5].count("█") == 2 * lines[6].count("█") == 3 * lines[7].count("█")


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
    assert expected in verdict(found)
