"""The style of all plots: each scheme has its own colour, marker and line style in every plot.

The colours are those of Okabe and Ito, for colour-blind readers; markers and line styles also work in grey. Plots do
not use pyplot: no window, no global state, safe in any thread.
"""

import io
import pickle
from collections.abc import Sequence
from typing import Any, TypeAlias

import matplotlib
import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

Picture: TypeAlias = Figure
"""A drawing. The word figure is for those of the paper."""

ABBREVIATIONS = {
    "key": "KG",
    "shuffle": "SG",
    "partial-key": "PKG",
    "round-robin": "RR",
    "w-choices": "W-C",
    "d-choices": "D-C",
    "greedy": "Greedy-d",
}
"""The paper's abbreviations of the schemes, for plots, tables and verdicts."""

_LOOK: dict[str, tuple[str, str, Any]] = {
    "partial-key": ("#D55E00", "s", "-"),
    "d-choices": ("#0072B2", "o", "-"),
    "w-choices": ("#009E73", "^", "--"),
    "round-robin": ("#CC79A7", "v", ":"),
    "shuffle": ("#56B4E9", "D", "-."),
    "key": ("#000000", "x", "-."),
    "greedy": ("#E69F00", "P", "--"),
    "look-ahead": ("#8C564B", "p", "-"),
    "planned": ("#7A5195", "*", "-"),
    "per-key": ("#A50026", "h", "-"),
}
SERIES: list[tuple[str, str, Any]] = [
    ("#0072B2", "o", "-"),
    ("#D55E00", "s", "--"),
    ("#009E73", "^", "-."),
    ("#CC79A7", "v", ":"),
    ("#E69F00", "P", (0, (5, 1))),
    ("#56B4E9", "D", (0, (1, 1))),
]
"""Looks of lines that are not schemes: thresholds, numbers of workers, …"""

_RC: Any = {
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "keyspread",
}


def grid(
    rows: int, columns: int, width: float, height: float, ylabel: str, *, skew: bool = False, **shared: Any
) -> tuple[Picture, Any]:
    """Return a picture with a grid of axes (always a two-dimensional array), each of this size in inches.

    `skew` makes the x axis that of the figures over the skew z.
    """
    with matplotlib.rc_context(_RC):
        picture = Picture(figsize=(columns * width, rows * height), layout="constrained")
        axes = picture.subplots(rows, columns, squeeze=False, **shared)
    for panel in axes[-1] if skew else ():
        skew_axis(panel)
    for panel in axes[:, 0]:
        panel.set_ylabel(ylabel)
    return picture, axes


def one_panel(ylabel: str, *, skew: bool = False) -> tuple[Picture, Any]:
    """Return a picture with one panel, of the size that all such figures have."""
    picture, axes = grid(1, 1, 5.0, 3.2, ylabel, skew=skew)
    return picture, axes[0, 0]


def skew_axis(axes: Axes) -> None:
    """Set the range and the ticks of the x axis to those of every figure over the skew z."""
    axes.set(xlim=(0, 2.1), xticks=(0.5, 1.0, 1.5, 2.0), xlabel="skew z")


def line(
    axes: Axes,
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    look: str | int,
    label: str | None = None,
    low: npt.ArrayLike | None = None,
    high: npt.ArrayLike | None = None,
    **more: Any,
) -> None:
    """Draw one line in the look of a scheme, or of the i-th of `SERIES`; low and high are the limits of a band."""
    colour, marker, dash = _LOOK[look] if isinstance(look, str) else SERIES[look % len(SERIES)]
    name = label if label is not None else ABBREVIATIONS.get(str(look), str(look))
    x, y = np.asarray(x), np.asarray(y)
    every = max(1, x.size // 12)
    settings = {"color": colour, "marker": marker, "linestyle": dash, "markersize": 4, "linewidth": 1.3} | more
    axes.plot(x, y, label=name, markevery=every, **settings)
    if low is not None and high is not None:
        axes.fill_between(x, np.asarray(low), np.asarray(high), color=colour, alpha=0.15, linewidth=0)


def over_seeds(axes: Axes, table: pd.DataFrame, x: str, y: str, look: str | int, label: str | None = None) -> None:
    """Draw the median over the seeds, in column y, and the range over the seeds as a band."""
    line(axes, table[x], table[y], look, label, table[f"{y}_low"], table[f"{y}_high"])


def reference_line(axes: Axes, y: float, label: str, right: bool = False) -> None:
    """Draw a dotted horizontal line with a label at its left or right end, on white so that it stays readable."""
    axes.axhline(y, color="#333333", linewidth=0.9, linestyle=":")
    place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "xytext": (0, 3), "textcoords": "offset points"}
    place |= {"ha": "right" if right else "left", "in_layout": False}
    ground = {"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 0.8}
    axes.annotate(label, (0.99 if right else 0.01, y), color="#333333", fontsize=8, bbox=ground, **place)


def each_value(axes: Axes, values: Sequence[int]) -> None:
    """Put a tick with its value at 0, 1, 2, …"""
    axes.set_xticks(range(len(values)), [str(value) for value in values])


def log_x(axes: Axes, values: Sequence[int]) -> None:
    """Put x on a log scale with a tick at each of these values."""
    axes.set_xscale("log")
    axes.set_xticks(values, [f"{value:,}" for value in values])
    axes.set_xticks([], minor=True)


def log_imbalance(axes: Axes, floor: float = 1e-7, top: float = 1.0) -> None:
    """Put imbalance on a log scale as the paper does; values below the floor are drawn on it."""
    axes.set_yscale("log")
    axes.set_ylim(floor, top)
    for drawn in axes.get_lines():
        heights = np.asarray(drawn.get_ydata(), float)
        drawn.set_ydata(np.maximum(heights, floor * 1.1))


def legend_below(picture: Picture, axes: Axes, columns: int = 4) -> None:
    """Put one legend for all axes below them."""
    handles, labels = axes.get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=_RC["font.size"])


def as_svg(picture: Picture) -> str:
    """Return the picture as the text of an SVG file; the same picture always gives the same text."""
    # Saving changes the layout of a picture, and a second save starts from there. A copy gives the same each time.
    copy: Picture = pickle.loads(pickle.dumps(picture))
    for axes in copy.axes:
        axes.title.set_fontsize(_RC["axes.titlesize"])  # `set_title` uses the size in matplotlib's own settings
    file = io.BytesIO()
    with matplotlib.rc_context(_RC):
        copy.savefig(file, format="svg", facecolor="white", metadata={"Date": None, "Creator": None})
    return file.getvalue().decode("utf-8")
