"""The report: one page that parses, needs no other file, is always the same, and shows every verdict."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from keyspread.errors import InputError
from keyspread.paper.figures import style
from keyspread.paper.figures.figure import SCALES, Figure, FigureResult, Outcome, Verdict
from keyspread.paper.report import to_json, write_report
from keyspread.paper.reproduce import FIGURES
from keyspread.paper.runs.run import SCHEMA

ABOUT = {"scale": "quick", "seeds": "0, 1", "command": "keyspread reproduce <all> & more"}
VOID = {"meta", "br", "hr", "img", "link", "input"}
NASTY = "a <b>bold</b> & \"quoted\" <script>alert('x')</script>"


class Synthetic(Figure):
    """A figure with whatever text a test needs."""

    name, label, title = "9", "Figure 9", "Something"
    paper, method = "It is said that p_1 is large.", "By hand."

    def __init__(self, name="9", label="Figure 9", title="Something"):
        self.name, self.label, self.title = name, label, title  # type: ignore[misc]

    def table(self, scale, results):
        raise NotImplementedError

    plot = verdicts = table


def picture(width=3.4):
    made, axes = style.grid(1, 1, width, 2.6, "y")
    style.line(axes[0, 0], [1, 2, 3], [3.0, 1.0, 2.0], "d-choices", low=[2, 0, 1], high=[4, 2, 3])
    axes[0, 0].set_title("a < b & c")
    style.legend_below(made, axes[0, 0])
    return made


def synthetic(figure=None, rows=3, outcomes=("holds",), drawn=None, runs=0):
    table = pd.DataFrame({"skew": np.arange(rows) / 10, "scheme": ["w-choices"] * rows, "loads": [[1, 2]] * rows})
    verdicts = [
        Verdict(f"claim {i}", "Sec. 1", f"{i} % of it", Outcome(outcome), "" if outcome == "holds" else f"reason {i}")
        for i, outcome in enumerate(outcomes)
    ]
    return FigureResult(figure or Synthetic(), table, verdicts, drawn or picture(), runs)


class Page(HTMLParser):
    """A parser that fails on unbalanced tags and collects ids, references and texts."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.references, self.texts = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self._attributes(attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self._attributes(attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def _attributes(self, attrs):
        for name, value in attrs:
            assert not name.startswith("on"), "a script in an attribute"
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href", "xlink:href"):
                self.references.append(value)
            self.references += [f"#{found}" for found in re.findall(r"url\(#([^)]+)\)", value or "")]

    @property
    def text(self):
        return re.sub(r"[ \n]+", " ", "".join(self.texts))


def check(path):
    """Check what every report must have; return the parsed page."""
    source = path.read_text(encoding="utf-8")
    page = Page(source)
    assert source.startswith("<!DOCTYPE html>")
    assert "script" not in page.tags
    assert len(page.ids) == len(set(page.ids))
    assert "@import" not in source
    for reference in page.references:
        if reference.startswith("#"):
            assert reference[1:] in page.ids
        else:
            assert re.fullmatch(r"(figures|tables)/[a-z0-9-]+\.(svg|csv)", reference)
            assert (path.parent / reference).is_file()
    return page


@pytest.fixture(scope="module")
def computed():
    empty = SCHEMA.empty_table().to_pandas()
    return [FigureResult.of(FIGURES[name], SCALES["quick"], empty) for name in ("3", "5", "6")]


def test_real_figures(tmp_path, computed):
    path = write_report(tmp_path / "new" / "folder", computed, ABOUT)
    page = check(path)
    assert path == tmp_path / "new" / "folder" / "report.html"
    assert "11 claims: 10 hold, 1 holds in part, 0 do not hold; 1 check of our own, not counted" in page.text
    assert page.tags.count("svg") == 3
    for text in ("Figure 5.", "What the paper says", "79.6\N{NO-BREAK SPACE}%", "5 of 80 settings"):
        assert text in page.text
    assert "keyspread reproduce <all> & more" in page.text
    made = sorted(str(file.relative_to(path.parent)) for file in path.parent.rglob("*") if file.is_file())
    assert made == [
        "figures/figure-03.svg", "figures/figure-05.svg", "figures/figure-06.svg", "report.html",
        "tables/figure-03.csv", "tables/figure-05.csv", "tables/figure-06.csv", "verdicts.json",
    ]  # fmt: skip
    pd.testing.assert_frame_equal(pd.read_csv(path.parent / "tables/figure-05.csv"), computed[1].table)
    published = json.loads((path.parent / "verdicts.json").read_text(encoding="utf-8"))
    assert published == {"size": "", "seeds": "0, 1", **to_json(computed)}
    assert published["outcomes"] == {"holds": 10, "holds in part": 1, "does not hold": 0}
    assert published["figures"][2]["verdicts"][0]["why"].startswith("5 of 80 settings")


def test_the_same_figures_give_the_same_bytes(tmp_path):
    once, again = [synthetic(drawn=picture())], [synthetic(drawn=picture())]
    folders = [tmp_path / name for name in "abc"]
    for folder, made in zip(folders, (once, once, again), strict=True):
        write_report(folder, made, ABOUT)
    for file in ("report.html", "figures/figure-09.svg", "tables/figure-09.csv"):
        first, *others = ((folder / file).read_bytes() for folder in folders)
        assert [other == first for other in others] == [True, True], file


def test_every_outcome_has_a_word_a_symbol_and_its_reason(tmp_path):
    made = [synthetic(outcomes=("holds", "holds in part", "does not hold"))]
    page = check(write_report(tmp_path, made, {}))
    assert "3 claims: 1 holds, 1 holds in part, 1 does not hold" in page.text
    for text in ("✓ holds", "◐ holds in part", "✗ does not hold", "reason 1", "reason 2"):
        assert page.text.count(text) == 2  # in the list of all claims, and beside the figure


def test_nothing_of_a_text_becomes_markup(tmp_path):
    figure = Synthetic(title=NASTY)
    figure.paper = figure.method = NASTY
    table = pd.DataFrame({NASTY: [NASTY]})
    verdict = Verdict(NASTY, NASTY, NASTY, Outcome.FAILS, NASTY)
    page = check(write_report(tmp_path, [FigureResult(figure, table, [verdict], picture(), 0)], {NASTY: NASTY}))
    assert "b" not in page.tags
    assert page.text.count(NASTY) == 14


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    for folder in (tmp_path / "file", str(tmp_path / "file" / "below")):
        with pytest.raises(InputError, match=r"cannot write the report to '.*file.*': .*; name another folder"):
            write_report(folder, [synthetic()], {})
