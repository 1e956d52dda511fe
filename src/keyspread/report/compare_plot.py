"""The plot of a comparison: replicas against windowed imbalance, one point per scheme. Lower left is better."""

from collections.abc import Sequence

from matplotlib.ticker import FuncFormatter

from keyspread.evaluation.compare import Compared, frontier
from keyspread.report import style

_FLOOR = 1e-7


def plot_comparison(title: str, compared: Sequence[Compared], path: str) -> None:
    """Draw all schemes, and a line through those that no other scheme beats on both counts."""
    picture, axes = style.picture(width=5.6, height=3.8)
    panel = axes[0, 0]
    unbeaten = frontier(compared)
    panel.plot(
        [scheme.replicas_per_key for scheme in unbeaten],
        [max(scheme.windowed_imbalance, _FLOOR) for scheme in unbeaten],
        color="#bbbbbb",
        linewidth=1,
        zorder=1,
    )
    for result in compared:
        style.point(panel, result.replicas_per_key, max(result.windowed_imbalance, _FLOOR), result.scheme)
    panel.set(xscale="log", yscale="log", xlabel="replicas per key", ylabel="windowed imbalance")
    for set_formatter in (panel.xaxis.set_major_formatter, panel.xaxis.set_minor_formatter):
        set_formatter(FuncFormatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "1235" else ""))
    panel.set_title(title, fontsize=9.5, parse_math=False)
    panel.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=8, frameon=False)
    style.save(picture, path)
