"""Plots whose points carry their names: nothing is covered, and what is even has a band of its own."""

from itertools import combinations

import pytest

pytest.importorskip("matplotlib")

from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from keyspread.evaluation.advice import Sample, good_enough
from keyspread.evaluation.compare import ALL, Compared
from keyspread.report import compare_plot, style
from keyspread.report.labels import Label, label_points

SAMPLE = Sample(workers=20, messages=100_000, windows=10, keys=1000)


def boxes(axes):
    """Return the extents of all names that are not empty, without the lines that lead to their points."""
    renderer = FigureCanvasAgg(axes.get_figure()).get_renderer()
    return {text.get_text(): Text.get_window_extent(text, renderer) for text in axes.texts if text.get_text()}


@settings(max_examples=25)
@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10)), min_size=1, max_size=12))
def test_names_cover_neither_each_other_nor_a_point(points):
    picture, axes = style.picture(width=6, height=5)
    panel = axes[0, 0]
    panel.set(xlim=(-1, 11), ylim=(-1, 11))
    labels = [Label(x, y, f"name {number}") for number, (x, y) in enumerate(points)]
    written = label_points(panel, labels, all_of_them=False)
    found = boxes(panel)
    assert len(found) == written
    assert not any(one.overlaps(other) for one, other in combinations(found.values(), 2))
    frame = panel.get_window_extent()
    for box in found.values():
        assert frame.x0 <= box.x0
        assert box.x1 <= frame.x1
        for x, y in points:
            assert not box.contains(*panel.transData.transform((x, y)))
    assert picture is panel.get_figure()


def test_all_names_are_written_if_they_must_be():
    _, axes = style.picture()
    labels = [Label(0.5, 0.5, f"a long name {number}") for number in range(60)]
    assert label_points(axes[0, 0], labels) == 60
    assert len(boxes(axes[0, 0])) == 60


def compared(scheme, busiest, replicas):
    return Compared(scheme, 0.0, (busiest - 1) / 20, busiest, round(1000 * replicas), 10, replicas, 1e6)


def test_a_comparison_names_every_scheme_and_draws_zeros_in_a_band(monkeypatch, tmp_path):
    saved = {}
    monkeypatch.setattr(style, "save", lambda picture, path: saved.setdefault(path, picture))
    results = [compared(scheme, 1 + number**2 / 10, 1 + number / 10) for number, scheme in enumerate(ALL)]
    results[3] = compared(ALL[3], 1.000_001, 2.0)  # less than a hundredth of a percent
    compare_plot.plot_comparison("a title", results, SAMPLE, "plot.svg")
    panel = saved["plot.svg"].axes[0]
    found = boxes(panel)
    assert set(ALL) <= set(found)
    assert not any(one.overlaps(other) for one, other in combinations(found.values(), 2))
    assert f"good enough: {good_enough(SAMPLE):.2f} ×" in found
    assert panel.get_ylabel().startswith("busiest worker, × even share")
    ticks = [label.get_text() for label in panel.get_yticklabels()]
    assert ticks[0] == "even"
    assert {"1.01 ×", "1.1 ×", "2 ×"} <= set(ticks)
    assert compare_plot._height(1.0) == compare_plot._height(1.000_001) < compare_plot._height(1.0002)
    assert compare_plot._height(1.1) == pytest.approx(-1)


def test_one_scheme_alone_and_loads_of_any_size(tmp_path):
    for busiest in (1.0, 1.5, 999.0):
        path = tmp_path / f"{busiest}.png"
        compare_plot.plot_comparison("$odd", [compared("key", busiest, 1.0)], SAMPLE, str(path))
        assert path.stat().st_size > 5000
