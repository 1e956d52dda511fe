"""The page needs nothing else, runs nothing, and escapes whatever a log says; the text obeys no control character."""

import re
from html.parser import HTMLParser

import pytest

from keyspread.diagnosis import diagnose_log
from keyspread.diagnosis.page import page
from made_logs import HOT, MadeLog, adaptive, exchange, join_plan, node, skewed_log

EVIL = "<script>alert('x')</script><img src=x onerror=alert(1)>\x1b[31m\n\"&"


class Tags(HTMLParser):
    """All tags and attributes of a page, and whether every tag is closed."""

    VOID = frozenset({"meta", "br", "hr", "line"})

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes = [], set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture
def evil(tmp_path):
    log = MadeLog(name=EVIL, version=EVIL)
    plan = node("Window", None, exchange(f"{EVIL}#1"))
    log.query(plan, description=EVIL)
    log.stage(HOT, name=EVIL)
    (diagnosis,) = diagnose_log(log.end().write(tmp_path))
    assert diagnosis.skew
    return diagnosis


def test_text_from_the_log_is_escaped(evil):
    for form in (evil.to_html(), evil._repr_html_()):
        tags = Tags(form)
        assert not tags.open
        assert not tags.tags & {"script", "img", "link", "iframe", "object"}
        assert not {name for name in tags.attributes if name.startswith("on")}
        assert "&lt;script&gt;" in form
        assert "\x1b" not in form


def test_the_page_is_self_contained(evil):
    assert not re.search(r"(?:src|href|url)\s*[=(]", evil.to_html().replace("src=x onerror", ""))
    assert "default-src 'none'" in evil.to_html()


def test_there_is_a_bar_per_task_and_a_part_per_application(tmp_path):
    diagnoses = diagnose_log(skewed_log().write(tmp_path, "a"), skewed_log(name="two").write(tmp_path, "b"))
    text = page(diagnoses)
    assert (text.count("<h1>"), text.count('class="ks-tail"'), text.count('class="ks-hot"')) == (2, 2 * 15, 2 * (1 + 1))
    assert not Tags(text).open


def test_a_long_stage_is_thinned_out_and_keeps_the_slowest(tmp_path):
    log = MadeLog(slots=50)
    log.query(adaptive(join_plan()))
    log.stage([50_000 if task == 777 else 500 for task in range(2000)])
    (diagnosis,) = diagnose_log(log.end().write(tmp_path))
    bars = diagnosis.skew[0].bars
    assert max(bars.heights) == 51.0
    assert len(bars.heights) + bars.left_out == 2000
    assert len(bars.heights) <= 200


def test_the_text_has_no_control_characters_and_fits(evil):
    lines = str(evil).splitlines()
    assert all(line.isprintable() for line in lines)
    assert max(len(line) for line in lines if "keyspread.spark" not in line) <= 100
