"""The page: one file, small, without anything from elsewhere, and no text of a key can become markup."""

import json
import re

import pytest

from keyspread.errors import InputError
from keyspread.live_page.history import POINTS, RunHistory
from keyspread.live_page.server import render
from page_batches import made


def data_of(page):
    return json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)[1])


def long_run(keys=10, workers=48):
    history = RunHistory("a title " * 10)
    for number in range(3 * POINTS):
        loads = [1000 + (number * worker) % 37 for worker in range(workers)]
        hottest = tuple((f"a rather long key number {key}/{number}", 100_000 - key) for key in range(keys))
        history.add(made(number, loads, loads[::-1], hottest=hottest, workers_of=(tuple(range(workers)),) * keys))
    return history


def test_it_is_self_contained_and_below_100_kb():
    page = render(long_run().snapshot())
    assert len(page.encode()) < 100_000
    assert not re.search(r"(?:src|href)=[\"'](?:https?:)?//|@import|url\(", page)
    assert re.findall(r'href="([^"]+)"', page) == ["#workers", "report.html"]  # relative
    assert 'new EventSource("events")' in page
    assert "prefers-color-scheme: dark" in page


def test_no_text_of_a_key_or_title_becomes_markup():
    nasty = "</script><script>alert(1)</script><!--\u2028"
    history = RunHistory(nasty)
    history.add(made(0, hottest=((nasty, 5),), workers_of=()))
    page = render(history.snapshot())
    assert page.count("<script") == 2
    assert "alert(1)</script>" not in page
    assert data_of(page)["last"]["hottest"][0]["key"] == nasty
    assert "innerHTML" not in page  # the page writes texts only


def test_a_saved_page_is_not_live(tmp_path):
    history = long_run()
    history.save(str(tmp_path / "run.html"))
    saved = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert 'data-live="no"' in saved
    assert 'data-live="yes"' in render(history.snapshot(), live=True)
    assert data_of(saved) == json.loads(json.dumps(history.snapshot()))
    with pytest.raises(InputError, match=r"the page cannot be written to .*No such file.*: name another file"):
        history.save(str(tmp_path / "no" / "run.html"))
