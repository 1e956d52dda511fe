"""The screen of a stream: it fits the terminal, whatever the batch contains, and shows the numbers of the batch."""

import io

import numpy as np
import pytest

pytest.importorskip("pyspark")
pytest.importorskip("rich")

from rich.console import Console

from keyspread.cli.screens.run import BatchLines, LivePicture
from keyspread.spark.stream_watch import BatchSeen

KEYS = (("x" * 200, 400), (None, 300), ("", 200), ("[b]bold[/b]\n\x1b[31m", 100))


def batch(loads, number=0, hottest=KEYS, **more):
    given = {"query": "q", "time": "", "seconds": 0.5, "head": 3, **more}
    return BatchSeen(np.array(loads), hottest, batch=number, **given)


def console(width=80, encoding="utf-8"):
    return Console(file=io.TextIOWrapper(io.BytesIO(), encoding), width=width, height=24, highlight=False)


def lines_of(out, *things):
    for thing in things:
        out.print(thing)
    out.file.flush()
    return [line.rstrip() for line in out.file.buffer.getvalue().decode(out.encoding).splitlines()]


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("workers", [1, 16, 20, 21, 100, 2000])
def test_a_picture_of_any_number_of_workers_fits(workers, width):
    out = console(width)
    picture = LivePicture("look-ahead, some workers: " + "long " * 50, out)
    for number in range(500):
        picture.add(batch([10**9 + number] * workers, number), 2)
    lines = lines_of(out, picture)
    assert max(map(len, lines)) <= width
    assert len(lines) <= (25 if workers <= 16 else 29)
    assert lines[1].startswith(f"batch 499: {workers * (10**9 + 499):,} rows in 0.5 s, ")
    assert sum(line.startswith("worker ") for line in lines) == (workers if workers <= 20 else 0)
    assert any(line.endswith("3 hot keys, d = 2") for line in lines)
    assert "hottest: xxxxxxxxxxxxx… 0.0 %, null 0.0 %, '' 0.0 %" in " ".join(lines)


def test_a_terminal_without_unicode_and_one_without_a_batch_yet():
    out = console(encoding="ascii")
    picture = LivePicture("a title", out)
    assert lines_of(out, picture) == ["a title", "waiting for the first rows"]
    picture.add(batch([5, 5], hottest=(("a", 5),)))
    assert "| even share" in " ".join(lines_of(out, picture)[-4:])


def test_one_line_per_batch():
    out = console()
    plain = BatchLines(out)
    plain.add(batch([100_000_000, 300_000_000], 100_000, hottest=(("x" * 200, 100_000_000),)), 7)
    plain.add(batch([0, 0], 100_001, hottest=(), head=0))
    lines = lines_of(out)
    assert max(map(len, lines)) <= 80
    assert lines == [
        "  batch        rows seconds busiest imbalance hot keys    d hottest key",
        "100,000 400,000,000    0.50  1.50 ×   2.5e-01        3    7 xxxxxxxxx… 25.0 %",
        "100,001           0    0.50  0.00 ×   0.0e+00        0",
    ]
