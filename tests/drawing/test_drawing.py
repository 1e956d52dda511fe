"""Results draw themselves: as HTML without scripts, as SVG that is XML, and as text that fits a terminal."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import keyspread as ks
from keyspread.drawing.markup import as_html, as_svg
from keyspread.drawing.picture import Bar, Bars, Columns, Drawn, Picture, Table, Trend, of_loads
from keyspread.drawing.text import as_text
from keyspread.evaluation.compare import compare

HASHES = ks.hash_keys(["hot"] * 600 + [f"k{number}" for number in range(400)])
NASTY = "<script>alert(1)</script> & \"quotes\" 'and' \x00"
loads = st.lists(st.integers(0, 10**12), min_size=1, max_size=300)


def results():
    yield ks.plan(HASHES, workers=8)
    yield ks.simulate(HASHES, "w-choices", workers=8)
    yield compare(HASHES, 8, ["key", "planned"])


@pytest.mark.parametrize("result", list(results()), ids=lambda result: type(result).__name__)
def test_results_draw_themselves(result):
    assert isinstance(result, Drawn)
    html, text = result._repr_html_(), str(result)
    ElementTree.fromstring(html)
    assert "<script" not in html
    assert "http://www.w3.org/2000/svg" in html
    assert result.picture().title in html
    assert text.startswith(result.picture().title)
    assert max(map(len, text.splitlines())) <= 80


def test_the_picture_of_a_plan_has_its_numbers():
    plan = ks.plan(HASHES, workers=8)
    columns, table = plan.picture().parts
    assert columns.loads == plan.loads.tolist()
    assert sum(columns.hot) == 600
    assert columns.title == "messages per worker: the busiest has 1.00 × its even share"
    assert table.rows[0] == (str(ks.hash_keys(["hot"])[0]), "60.00 %", str(len(plan.head[0].workers)))


def test_the_picture_of_a_comparison_begins_with_the_most_even_scheme():
    bars, table = compare(HASHES, 8, ["key", "planned"]).picture().parts
    assert [bar.name for bar in bars.bars] == [row[0] for row in table.rows] == ["planned", "key"]
    assert [bar.strong for bar in bars.bars] == [True, False]


@given(loads, st.integers(40, 200))
def test_any_loads_can_be_drawn(many, width):
    hot = [load // 2 for load in many]
    parts = [of_loads("rows", many, hot), Trend("t", many), Bars("b", [Bar("x", many[0], "text")])]
    picture = Picture("A title", "facts", parts)
    root = ElementTree.fromstring(as_svg(picture))
    columns = root.findall(".//{*}rect")
    assert len(columns) <= 2 * 120 + 1
    assert all(float(one.get("height")) > 0 and float(one.get("width")) > 0 for one in columns)
    assert max(map(len, as_text(picture, width).splitlines())) <= width


@given(st.text() | st.just(NASTY))
def test_texts_of_data_are_never_markup(text):
    table = Table((text, "rows"), [(text, "1")])
    html = as_html(Picture(text, text, [table, Bars(text, [Bar(text, 1, text)])]))
    assert "<script" not in html
    assert html.count("<td") == 2
    ElementTree.fromstring(html)


def test_columns_side_by_side_share_a_scale():
    halves = [of_loads(name, values, scale=90, half=True) for name, values in (("a", [90, 10]), ("b", [50, 50]))]
    root = ElementTree.fromstring(as_svg(Picture("t", "f", halves)))
    heights = [float(one.get("height")) for one in root.findall(".//{*}rect[@class='ks-tail']")]
    assert heights == [pytest.approx(120 * load / 90, abs=0.1) for load in (90, 10, 50, 50)]
    tops = {one.get("transform").split()[1] for one in root.findall("{*}g")}
    assert len(tops) == 1


def test_of_many_workers_the_busiest_are_shown():
    values = np.ones(1000)
    values[777] = 50
    text = as_text(Picture("t", "f", [Columns("c", values.tolist())]))
    assert "busiest" in text
    assert len(text.splitlines()) == 2 + 2 + 7
    root = ElementTree.fromstring(as_svg(Picture("t", "f", [Columns("c", values.tolist())])))
    assert max(float(one.get("height")) for one in root.findall(".//{*}rect")) == 120


def test_the_picture_of_the_readme_is_one_of_ours():
    root = ElementTree.parse(Path(__file__).parents[2] / "docs" / "images" / "gain.svg").getroot()
    assert "keyspread run" in root.get("aria-label")
    assert "prefers-color-scheme" in root.find("{*}style").text
