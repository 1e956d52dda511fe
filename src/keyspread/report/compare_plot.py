"""The plot of a comparison: replicas against the busiest worker, one point per scheme. Lower left is better."""

import math
from collections.abc import Sequence
from typing import Any

from keyspread.evaluation.advice import Sample, good_enough
from keyspread.evaluation.compare import Compared, frontier
from keyspread.report import style
from keyspread.report.labels import Label, label_points

_LEAST = 1e-4
"""Less than this above the even share counts as none: such points are in a band of their own, below the log scale."""

_BAND = 0.5  # height of the band, in decades


def plot_comparison(title: str, compared: Sequence[Compared], sample: Sample, path: str) -> None:
    """Draw all schemes with their names, the line below which a load is good enough, and the best trade-offs."""
    picture, axes = style.picture(width=6.6, height=4.4)
    panel = axes[0, 0]
    enough = good_enough(sample)
    texts = _draw_scales(panel, compared, enough)
    unbeaten = frontier(compared)
    panel.plot(
        [one.replicas_per_key for one in unbeaten],
        [_height(one.busiest) for one in unbeaten],
        color="#bbbbbb",
        linewidth=1,
        zorder=1,
    )
    for one in compared:
        style.point(panel, one.replicas_per_key, _height(one.busiest), one.scheme)
    panel.set_title(title, parse_math=False, loc="left", fontsize=9.5)
    labels = [Label(one.replicas_per_key, _height(one.busiest), one.scheme) for one in compared]
    label_points(panel, labels, texts)
    style.save(picture, path)


def _height(busiest: float) -> float:
    """Return the place of a load on the y axis: the logarithm of what is above the even share, or the band."""
    above = busiest - 1
    return math.log10(above) if above >= _LEAST else math.log10(_LEAST) - _BAND / 2


def _draw_scales(panel: Any, compared: Sequence[Compared], enough: float) -> list[Any]:
    """Set up both axes, the band and the line; return the texts inside the axes."""
    most = max([one.busiest for one in compared] + [enough])
    floor, top = math.log10(_LEAST), math.ceil(10 * math.log10(max(most - 1, 0.1)) + 2) / 10
    panel.set_ylim(floor - _BAND, top)
    panel.axhspan(floor - _BAND, floor, color="#e6f0ea", zorder=0, linewidth=0)
    ticks = [tick for tick in (1.001, 1.01, 1.1, 1.3, 2, 4, 11, 31, 101, 1001) if tick - 1 <= 10**top]
    panel.set_yticks(
        [floor - _BAND / 2, *(math.log10(tick - 1) for tick in ticks)], ["even", *(f"{tick:,} ×" for tick in ticks)]
    )
    panel.axhline(_height(enough), color="#00613f", linewidth=1, linestyle="--", zorder=1)
    panel.set_ylabel("busiest worker, × even share (mean of the windows)")
    panel.set_xscale("log")
    few, many = (choose(one.replicas_per_key for one in compared) for choose in (min, max))
    panel.set_xlim(few / (many / few * 1.3) ** 0.08, many * (many / few * 1.3) ** 0.16)
    steps = (1, 1.2, 1.5, 2, 2.5, 3) if many / few < 4 else (1, 1.5, 2, 3, 5, 10, 20, 50) if many / few < 40 else ()
    steps = steps or tuple(first * 10**power for power in range(7) for first in (1, 2, 5))
    low, high = panel.get_xlim()
    panel.set_xticks([step for step in steps if low <= step <= high], minor=False)
    panel.set_xticklabels([f"{step:,}" for step in steps if low <= step <= high])
    panel.set_xticks([], minor=True)
    panel.set_xlabel("replicas per key: workers that hold a part of it, on average")
    place = {"xycoords": ("axes fraction", "data"), "xytext": (-3, 3), "textcoords": "offset points", "ha": "right"}
    note = {"fontsize": 8, "in_layout": False, **place}
    return [
        panel.annotate(f"good enough: {enough:.2f} ×", (1, _height(enough)), color="#00613f", **note),
        panel.annotate("band: less than 0.01 % above the even share", (1, floor), color="#555555", **note),
    ]
